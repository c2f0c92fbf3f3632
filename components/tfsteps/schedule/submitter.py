"""`python -m tfsteps.schedule.submitter FILE`: creates the Workflow in FILE and waits for its end. Runs in a Job's pod.

The Workflow has the name of the Job, which owns it: the pod that tries again meets it again, and it goes with the Job.
"""

import os
import pathlib
import queue
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.kube.access import AccessError, find
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch
from tfsteps.launcher.exit_codes import ExitCode

JOB_NAME, JOB_UID = "TFSTEPS_JOB_NAME", "TFSTEPS_JOB_UID"
_ENDED = {"Succeeded": ExitCode.SUCCEEDED, "Failed": ExitCode.FAILED, "Error": ExitCode.FAILED}


class SubmitError(Exception):
    """A Workflow that could not be created or followed.

    Attributes:
        code: What the process exits with.
    """

    def __init__(self, message: str, code: ExitCode) -> None:
        """Keep `code` beside the message."""
        self.code = code
        super().__init__(message)


def main(arguments: Sequence[str]) -> int:
    """Submit, wait, and return the exit code: 0 succeeded, 2 refused, 10 the Workflow failed, 13 try again."""
    # Process 1 of a container hears no signal that it has no handler for. The Workflow goes with the Job, not with us.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(ExitCode.CANCELLED))
    try:
        workflow = msgspec.json.decode(pathlib.Path(arguments[0]).read_bytes(), type=dict[str, Any])
        api = Api(find())
        metadata = create(api, owned(workflow, os.environ[JOB_NAME], os.environ[JOB_UID]))
        _say(f"Workflow {metadata['name']} is there")
        return follow(api, metadata, _say)
    except (SubmitError, AccessError, ApiError) as error:
        _say(str(error))
        return getattr(error, "code", ExitCode.PLATFORM)


def owned(workflow: Mapping[str, Any], job: str, uid: str) -> dict[str, Any]:
    """Return `workflow` under the name of the Job that owns it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid}
    kept = {key: value for key, value in workflow["metadata"].items() if key in {"labels", "annotations"}}
    return {**workflow, "metadata": {**kept, "name": job, "ownerReferences": [owner]}}


def create(api: Api, workflow: Mapping[str, Any]) -> dict[str, Any]:
    """Create a Workflow, or find that it is there from an earlier try; return its metadata.

    Raises:
        SubmitError: The cluster refuses it, or one of that name is another's.
    """
    metadata, where = workflow["metadata"], api.access.namespace
    try:
        return dict(api.create(WORKFLOWS, where, workflow)["metadata"])
    except ApiError as error:
        if error.status != 409:
            code = ExitCode.PLATFORM if error.unavailable else ExitCode.USAGE
            raise SubmitError(f"the Workflow cannot be created in {where}: {error}", code) from error
    existing = dict(api.get(WORKFLOWS, where, metadata["name"], allowed=True)["metadata"])
    if not _owners(metadata) or _owners(existing) != _owners(metadata):
        raise SubmitError(
            f"there is a Workflow {metadata['name']} in {where} already; delete it or rename", ExitCode.USAGE
        )
    return existing


def _owners(metadata: Mapping[str, Any]) -> list[str]:
    return [owner["uid"] for owner in metadata.get("ownerReferences") or []]


def follow(api: Api, metadata: Mapping[str, Any], say: Callable[[str], None]) -> ExitCode:
    """Wait until a Workflow has ended, telling each phase; return the exit code.

    Raises:
        SubmitError: It was deleted, or may not be watched.
    """
    seen: queue.Queue[Seen] = queue.Queue()
    Watch(
        api,
        WORKFLOWS,
        metadata["namespace"],
        seen.put,
        sought=(metadata["name"], metadata["uid"]),
        believe_first_refusal=True,
        fieldSelector=f"metadata.name={metadata['name']}",
    )
    phase = ""
    try:
        while phase not in _ENDED:
            item = _workflow(seen.get(), metadata)
            status = item.get("status") or {}
            if status.get("phase", "") not in {"", phase}:
                phase = status["phase"]
                say(f"Workflow {metadata['name']} {phase}" + (f": {why}" if (why := status.get("message")) else ""))
    finally:
        api.stopping.set()
    return _ENDED[phase]


def _workflow(seen: Seen, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return our Workflow as it is now."""
    match seen:
        case Listed(items=[item]) | Changed(item=item) if item["metadata"]["uid"] == metadata["uid"]:
            return item
        case Refused(error=error, retryable=False):
            message = f"Workflows may not be watched in {metadata['namespace']}: {error}; grant get, list and watch"
            raise SubmitError(message, ExitCode.USAGE)
        case Refused(error=error):
            message = f"Workflow {metadata['name']} goes on, but cannot be watched any more: {error}"
            raise SubmitError(message, ExitCode.PLATFORM)
        case Listed() | Changed() | Deleted():
            raise SubmitError(f"Workflow {metadata['name']} was deleted", ExitCode.FAILED)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  the Job's log


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
