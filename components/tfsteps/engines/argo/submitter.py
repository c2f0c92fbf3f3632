"""`python -m tfsteps.engines.argo.submitter FILE`: creates the Workflow in FILE, and waits for its end.

It runs in the pod of a Job. The Workflow has the name of the Job, so a retried pod finds it. The Job owns the Workflow:
both are deleted together.
"""

import os
import pathlib
import queue
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.access import find
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.text import streams

JOB_NAME, JOB_UID = "TFSTEPS_JOB_NAME", "TFSTEPS_JOB_UID"
_ENDED = {"Succeeded": ExitCode.SUCCEEDED, "Failed": ExitCode.FAILED, "Error": ExitCode.FAILED}


class _CreatedWorkflow(msgspec.Struct):
    metadata: dict[str, Any]


class SubmitError(Exception):
    """A Workflow that could not be created or followed.

    Attributes:
        code: Exit code of the process.
    """

    def __init__(self, message: str, code: ExitCode) -> None:
        """Store the message and the exit code."""
        self.code = code
        super().__init__(message)


def main(arguments: Sequence[str]) -> int:
    """Submit, wait, and return the exit code: 0 succeeded, 2 refused, 10 the Workflow failed, 13 retry."""
    # PID 1 ignores signals without a handler. The Workflow is deleted with the Job, not when this process ends.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(ExitCode.CANCELLED))
    try:
        workflow = read(arguments)
        job, uid = _variable(JOB_NAME), _variable(JOB_UID)
        api = _api()
        metadata = create(api, owned(workflow, job, uid))
        _say(f"Workflow {metadata['name']} exists")
        return follow(api, metadata, _say)
    except (SubmitError, AccessError, ApiError) as error:
        _say(str(error))
        return getattr(error, "code", ExitCode.PLATFORM)


def read(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the Workflow in the file that is the only argument.

    Raises:
        SubmitError: There is not one argument, or the file cannot be read, or has no Workflow.
    """
    if len(arguments) != 1:
        raise SubmitError(
            f"expected one argument, the file of a Workflow; got {len(arguments)}: "
            "python -m tfsteps.engines.argo.submitter FILE",
            ExitCode.USAGE,
        )
    (file,) = arguments
    fix = "create the schedule again with `tfsteps submit`"
    try:
        workflow: dict[str, Any] = typed_json.decode(pathlib.Path(file).read_bytes(), dict[str, Any])
        typed_json.convert(workflow, _CreatedWorkflow)
    except OSError as error:
        raise SubmitError(
            f"the Workflow's file {file} cannot be read: {error.strerror}; {fix}", ExitCode.USAGE
        ) from error
    except NOT_READABLE as error:
        raise SubmitError(f"{file} has no Workflow in JSON: {error}; {fix}", ExitCode.USAGE) from error
    return workflow


def _variable(name: str) -> str:
    """Return an environment variable. SubmitError if it is missing or empty."""
    if value := os.environ.get(name):
        return value
    raise SubmitError(
        f"the environment variable {name} is not set; the pod of a Job sets it from its labels: create the schedule "
        "again with `tfsteps submit`",
        ExitCode.USAGE,
    )


def _api() -> Api:
    """Return the cluster of this pod. SubmitError if the pod has no ServiceAccount and there is no kubeconfig."""
    try:
        return Api(find())
    except AccessError as error:
        raise SubmitError(f"the cluster cannot be found: {error}", ExitCode.USAGE) from error


def owned(workflow: Mapping[str, Any], job: str, uid: str) -> dict[str, Any]:
    """Return `workflow` with the name of the Job, and the Job as its owner."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid}
    kept = {key: value for key, value in workflow["metadata"].items() if key in {"labels", "annotations"}}
    return {**workflow, "metadata": {**kept, "name": job, "ownerReferences": [owner]}}


def create(api: Api, workflow: Mapping[str, Any]) -> dict[str, Any]:
    """Create a Workflow, or find the one that an earlier pod of the Job created; return its metadata.

    Raises:
        SubmitError: The cluster refuses it, or a Workflow of this name has another owner.
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
            f"a Workflow {metadata['name']} already exists in {where}; delete it or choose another name", ExitCode.USAGE
        )
    return existing


def _owners(metadata: Mapping[str, Any]) -> list[str]:
    return [owner["uid"] for owner in metadata.get("ownerReferences") or []]


def follow(api: Api, metadata: Mapping[str, Any], say: Callable[[str], None]) -> ExitCode:
    """Wait until a Workflow has ended, report each phase to `say`, and return the exit code.

    Raises:
        SubmitError: The Workflow was deleted, or may not be watched.
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
                message = status.get("message")
                say(f"Workflow {metadata['name']} {phase}" + (f": {message}" if message else ""))
    finally:
        api.stopping.set()
    return _ENDED[phase]


def _workflow(seen: Seen, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the current state of the Workflow. SubmitError if it was deleted, or may not be watched."""
    match seen:
        case Listed(items=[item]) | Changed(item=item) if item["metadata"]["uid"] == metadata["uid"]:
            return item
        case Refused(error=error, retryable=False):
            message = f"no permission to watch Workflows in {metadata['namespace']}: {error}; grant get, list and watch"
            raise SubmitError(message, ExitCode.USAGE)
        case Refused(error=error):
            message = f"Workflow {metadata['name']} was not stopped, but can no longer be watched: {error}"
            raise SubmitError(message, ExitCode.PLATFORM)
        case Listed() | Changed() | Deleted():
            raise SubmitError(f"Workflow {metadata['name']} was deleted", ExitCode.FAILED)


def _say(text: str) -> None:
    print(text, flush=True)  # the Job's log


if __name__ == "__main__":
    streams.flush_and_exit(main(sys.argv[1:]))
