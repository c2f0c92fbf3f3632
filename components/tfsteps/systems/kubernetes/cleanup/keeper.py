"""Keeps a job for a retry of its run: a Kubernetes Job, the keeper, owns the job until a time limit.

The keeper creates no pods. Kubernetes itself ends it: its `activeDeadlineSeconds` fail it, its TTL deletes it, and the
garbage collector deletes the job that it owns. So a kept job ends even if no launcher and no janitor runs.
"""

import contextlib
import datetime as dt
import hashlib
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps.answer import NO, YES, unknown
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.http_client import SETTLE_SECONDS
from tfsteps.kube.resource import Resource
from tfsteps.runs.identity import MANAGED_BY
from tfsteps.systems.kubernetes.cleanup.retention import KEPT_FOR_TRY, KEPT_UNTIL
from tfsteps.systems.launcher_pod import LauncherPod
from tfsteps.systems.stop_controller import Detachment

KEEPERS = Resource("batch/v1", "jobs", "Job")
_PAUSE_SECONDS = 5.0  # between two attempts to find out the owner, or to set it
_REFUSALS = 4  # a server that restarts refuses for some seconds
_CHANCE_SECONDS = 600.0
"""How long a job is kept for another try of its step that may not come."""
_STEM = 40  # characters of the job's name in that of its keeper, which may have 63
_TEMPLATE = {  # no pod uses it, but policies check it
    "restartPolicy": "Never",
    "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "none",
            "image": "none",
            "resources": {key: {"cpu": "1m", "memory": "1Mi"} for key in ("requests", "limits")},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}


def ends_with(host: LauncherPod, seconds: float, *, new: bool) -> bool:
    """Return whether a job is to be stopped with its launcher, as far as is known without a request.

    Arguments as for `detach_job`.
    """
    pipeline = host.pipeline
    return host.followed(new=new).no and (not seconds or pipeline is None or pipeline.terminating.yes)


def detach_job(
    api: Api,
    host: LauncherPod,
    resource: Resource,
    job: Mapping[str, Any],
    seconds: float,
    *,
    since: float,
    new: bool = False,
) -> Detachment:
    """Detach from a job if it can go on after its launcher's pod, and return whether it does.

    If another pod may follow or not, the job is kept for that long. Where none follows, or the pipeline is ending, no
    request is sent: under Kubeflow Pipelines there is a tenth of a second to delete the job.

    Args:
        api: The cluster.
        host: The launcher's pod, which got SIGTERM or will.
        resource: Of the job object.
        job: The job object.
        seconds: How long it is kept if no other pod follows; 0 = not at all.
        since: Seconds since the signal, or since the pod's deletion was seen.
        new: This launcher has just created it.
    """
    pipeline, followed = host.pipeline, host.followed(new=new)
    if ends_with(host, seconds, new=new):
        return Detachment(NO)
    taken_away = host.is_taken_away(api, since)
    if not taken_away.yes:
        return Detachment(taken_away)
    if followed.yes or pipeline is None:
        return Detachment(YES, "the job was not stopped, and the next attempt adopts it")
    try:
        kept_for = seconds or _CHANCE_SECONDS
        until = hold_until(api, resource, job, host.owner, kept_for, launcher=host.uid, for_try=not seconds)
    except (ApiError, *MALFORMED) as error:
        refused = isinstance(error, ApiError) and not error.unavailable and since >= SETTLE_SECONDS
        if refused and followed.unknown:  # then a try, or the end of the run, finds it as it is
            return Detachment(YES, f"the job was not stopped: another try of the step may adopt it ({followed.why})")
        message = f"This pod is being evicted, and the job could not be kept for a retry: {error}"
        return Detachment(NO if refused else unknown(f"the job could not be kept for a retry: {error}"), message)
    what = "a retry of the run" if followed.no else "another try of the step"
    return Detachment(YES, f"the job is kept until {until} for {what}")


def hold_until(
    api: Api,
    resource: Resource,
    job: Mapping[str, Any],
    owner: Mapping[str, Any] | None,
    seconds: float,
    *,
    launcher: str,
    for_try: bool = False,
) -> str:
    """Make a keeper the owner of a job, and return the end of the keeping, as ISO 8601 by the server's clock.

    If this is interrupted between its two requests, the keeper ends without a job, and the job keeps its owner. It may
    be repeated: each launcher has one keeper.

    Args:
        api: The cluster.
        resource: Of the job object.
        job: The job object: namespace, name and uid are read.
        owner: The ownerReference to the run of the pipeline: its deletion also deletes the keeper, and then the job.
            None = the run is on another cluster, and the keeper ends by its deadline alone.
        seconds: How long to keep it; rounded up to whole seconds.
        launcher: The uid of the launcher's pod.
        for_try: Whether it is kept for another try of its step alone, not for a retry of the run.

    Raises:
        ApiError: The job cannot be kept.
    """
    meta, lifetime = job["metadata"], max(1, -int(-seconds // 1))
    digest = hashlib.sha256(f"{meta['uid']} {launcher}".encode()).hexdigest()[:10]
    name = f"{meta['name'][:_STEM]}-kept-{digest}"
    manifest = {
        "metadata": {"name": name, "labels": MANAGED_BY, "ownerReferences": [owner] if owner else []},
        "spec": {
            "parallelism": 0,
            "backoffLimit": 0,
            "activeDeadlineSeconds": lifetime,
            "ttlSecondsAfterFinished": 0,
            "template": {"spec": _TEMPLATE},
        },
    }
    body = {"apiVersion": KEEPERS.api, "kind": KEEPERS.kind, **manifest}
    try:
        keeper_job = api.create(KEEPERS, meta["namespace"], body, once=True)
    except ApiError as error:
        if error.status != 409:
            raise
        keeper_job = api.get(KEEPERS, meta["namespace"], name, once=True)  # an earlier request had no answer
    if keeper_job["spec"].get("suspend"):  # for example by Kueue: its deadline does not run
        raise ApiError("the Job that would end it is suspended by an admission webhook", 422)
    created = dt.datetime.fromisoformat(keeper_job["metadata"]["creationTimestamp"])
    until = (created + dt.timedelta(seconds=lifetime)).isoformat(timespec="seconds")
    keeper = {key: keeper_job["metadata"][key] for key in ("name", "uid")}
    before = msgspec.json.encode(owner or {}).decode()
    change = {
        "uid": meta["uid"],
        "ownerReferences": [{"apiVersion": KEEPERS.api, "kind": KEEPERS.kind, **keeper, "blockOwnerDeletion": False}],
        "annotations": {KEPT_UNTIL: until, **({KEPT_FOR_TRY: before} if for_try else {})},
    }
    api.patch(resource, meta["namespace"], meta["name"], {"metadata": change})
    return until


class JobOwner:
    """Gives a job its owner, the pipeline of its launcher, after it was kept or if it was created without one.

    Attributes:
        needed: Whether a job without an owner gets one: the launcher of the pipeline has created or adopted it.
        warning: Why it has not got its owner, and will not; empty = nothing to say.
    """

    def __init__(self, host: LauncherPod | None, resource: Resource) -> None:
        """Send no request; `host` is the launcher's pod, None = not in a pod."""
        self.needed = False
        self.warning = ""
        self._host, self._resource = host, resource
        self._done = False
        self._due = 0.0
        self._refusals = 0  # in a row

    def restore(self, api: Api, job: Mapping[str, Any]) -> None:
        """Give the job its owner, if it lacks it; what fails is tried again when this is called again.

        Args:
            api: The cluster.
            job: The last known job object.
        """
        if self._done or time.monotonic() < self._due:
            return
        if self._host and self._host.unread:
            self._due = time.monotonic() + _PAUSE_SECONDS
            self._host.retry_read(api)
            return
        owner = self._host.owner if self._host else None
        kept = KEPT_UNTIL in (job["metadata"].get("annotations") or {})
        alone = self.needed and owner is not None and not job["metadata"].get("ownerReferences")
        if not (kept or alone):
            return
        try:
            _set_owner(api, self._resource, job["metadata"], owner)
        except ApiError as error:
            self._due = time.monotonic() + _PAUSE_SECONDS
            self._refusals = 0 if error.unavailable else self._refusals + 1
            self._done = self._refusals >= _REFUSALS
            held = "still belongs to its keeper, and Kubernetes deletes it at the time it was kept until"
            held = held if kept else "does not belong to its pipeline, whose end does not delete it"
            self.warning = f"The job {held}: {error}" if self._done else ""
        else:
            self._done = True


def _set_owner(api: Api, resource: Resource, meta: Mapping[str, Any], owner: Mapping[str, Any] | None) -> None:
    """Set the owner of a job, then delete the keeper that it may have had, which owns nothing any more.

    Args:
        api: The cluster.
        resource: Of the job object.
        meta: The metadata of the last known job object.
        owner: The ownerReference to the run of the pipeline; None = there is none.

    Raises:
        ApiError: The job keeps its owner.
    """
    change = {
        "uid": meta["uid"],
        "ownerReferences": [owner] if owner else None,
        "annotations": {KEPT_UNTIL: None, KEPT_FOR_TRY: None},
    }
    api.patch(resource, meta["namespace"], meta["name"], {"metadata": change})
    for reference in meta.get("ownerReferences") or []:
        if (reference["apiVersion"], reference["kind"]) == (KEEPERS.api, KEEPERS.kind):
            with contextlib.suppress(ApiError):  # it ends by itself
                api.delete(KEEPERS, meta["namespace"], reference["name"], reference["uid"])
