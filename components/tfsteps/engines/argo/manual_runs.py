"""Removes the earlier manual runs of a pipeline, before it is submitted again."""

import time
from collections.abc import Mapping

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.engines.argo.workflow import WORKFLOWS, trigger_of
from tfsteps.kube.client import Api
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.demo import DemoError
from tfsteps.runs.identity import MANUAL, PIPELINE, TRIGGER
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.cleanup.clear import RunObjects
from tfsteps.systems.kubernetes.cleanup.demos import list_demos, runs_of

_GONE_SECONDS, _POLL_SECONDS = 180.0, 0.5


def clear_manual(api: Api, namespace: str, labels: Mapping[str, str], *, dry_run: bool = False) -> None:
    """Remove the manual runs of the pipeline that `labels` name, with their jobs, and wait until they are gone.

    A dry run only says which.

    Raises:
        CommandError: They are not gone in time; nothing is to be submitted then.
        DemoError: One of them, or of their jobs, is a demo; nothing was removed.
        ApiError: The cluster refuses it.
    """
    selector = f"{TRIGGER}={MANUAL},{PIPELINE}={labels[PIPELINE]}"
    items = [item for item in api.iterate(WORKFLOWS, namespace, labelSelector=selector) if trigger_of(item) == MANUAL]
    runs = {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
    if runs:  # before anything is removed
        resources = [WORKFLOWS, *(kind.resource for kind in registry.kinds())]
        for resource, item in list_demos(api, namespace, dict.fromkeys(resources)):
            if {uid for _, uid in runs_of(item)} & {*runs.values()}:
                raise DemoError(resource, item["metadata"])
    if dry_run:
        for name in runs:
            say(f"would remove the manual run {name}")
        return
    for name, uid in runs.items():
        say(f"removing the manual run {name}")
        api.delete(WORKFLOWS, namespace, name, uid)
    give_up = time.monotonic() + _GONE_SECONDS
    while left := [name for name, uid in runs.items() if not _gone(api, namespace, name, uid)]:
        if time.monotonic() > give_up:
            raise CommandError(
                f"nothing was submitted: {', '.join(left)} in {namespace} is still being deleted; see its finalizers "
                "with kubectl, and retry",
                ExitCode.PLATFORM,
            )
        time.sleep(_POLL_SECONDS)


def _gone(api: Api, namespace: str, name: str, uid: str) -> bool:
    """Tell whether a Workflow and all that its run launched are gone; delete what has no owner."""
    if not api.gone(WORKFLOWS, namespace, name, uid):
        return False
    launched = RunObjects(api, registry.kinds(), namespace, uid)
    items = launched.list()
    for item in items:
        if not item.deleting:
            launched.delete(item)
    return not items
