"""Keeps a job for a retry of its run: a Kubernetes Job, the keeper, owns the job until a time limit.

The keeper creates no pods. Kubernetes itself ends it: its `activeDeadlineSeconds` fail it, its TTL deletes it, and the
garbage collector deletes the job that it owns. So a kept job ends even if no launcher and no janitor runs.
"""

import contextlib
import datetime as dt
from collections.abc import Mapping
from typing import Any

from tfsteps.kube.client import Api, Resource
from tfsteps.kube.errors import ApiError
from tfsteps.runs.identity import MANAGED_BY
from tfsteps.systems.kubernetes.cleanup.retention import KEPT_UNTIL
from tfsteps.systems.kubernetes.launcher_pod import LauncherPod

KEEPERS = Resource("batch/v1", "jobs", "Job")
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


def leave(
    api: Api, host: LauncherPod, resource: Resource, job: Mapping[str, Any], seconds: float, *, new: bool = False
) -> str:
    """Return what follows for a job whose launcher's pod is ending; empty = delete the job.

    If the pipeline is ending, no request is sent: only a tenth of a second is left.

    Args:
        api: The cluster.
        host: The launcher's pod, which got SIGTERM.
        resource: Of the job object.
        job: The job object.
        seconds: How long it is kept if no other pod follows; 0 = not at all.
        new: This launcher has created it.

    Raises:
        ApiError: The job should be kept, but that failed: delete it.
    """
    if host.leaves_job(api, new=new):
        return "the job continues, and the next attempt adopts it"
    pipeline = host.pipeline
    if not (seconds and pipeline) or pipeline.terminating or pipeline.recreates_pod or not host.is_taken_away(api):
        return ""
    return f"the job is kept until {keep(api, resource, job, pipeline.owner, seconds)} for a retry of the run"


def keep(api: Api, resource: Resource, job: Mapping[str, Any], owner: Mapping[str, Any], seconds: float) -> str:
    """Make a new keeper the owner of a job, and return the end of the keeping, as ISO 8601 by the server's clock.

    If this is interrupted between its two requests, the keeper ends without a job, and the job keeps its owner.

    Args:
        api: The cluster.
        resource: Of the job object.
        job: The job object: namespace, name and uid are read.
        owner: The ownerReference to the run of the pipeline: its deletion also deletes the keeper, and then the job.
        seconds: How long to keep it; rounded up to whole seconds.

    Raises:
        ApiError: The job cannot be kept.
    """
    meta, lifetime = job["metadata"], max(1, -int(-seconds // 1))
    manifest = {
        "metadata": {"generateName": f"{meta['name']}-kept-", "labels": MANAGED_BY, "ownerReferences": [owner]},
        "spec": {
            "parallelism": 0,
            "backoffLimit": 0,
            "activeDeadlineSeconds": lifetime,
            "ttlSecondsAfterFinished": 0,
            "template": {"spec": _TEMPLATE},
        },
    }
    keeper_job = api.create(KEEPERS, meta["namespace"], {"apiVersion": KEEPERS.api, "kind": KEEPERS.kind, **manifest})
    if keeper_job["spec"].get("suspend"):  # for example by Kueue: its deadline does not run
        raise ApiError("the Job that would end it is suspended by an admission webhook")
    created = dt.datetime.fromisoformat(keeper_job["metadata"]["creationTimestamp"])
    until = (created + dt.timedelta(seconds=lifetime)).isoformat(timespec="seconds")
    keeper = {key: keeper_job["metadata"][key] for key in ("name", "uid")}
    change = {
        "uid": meta["uid"],
        "ownerReferences": [{"apiVersion": KEEPERS.api, "kind": KEEPERS.kind, **keeper, "blockOwnerDeletion": False}],
        "annotations": {KEPT_UNTIL: until},
    }
    api.patch(resource, meta["namespace"], meta["name"], {"metadata": change})
    return until


def take_back(api: Api, resource: Resource, job: Mapping[str, Any], owner: Mapping[str, Any] | None) -> None:
    """Restore the owner of a kept job, then delete the keeper, which owns nothing any more.

    Args:
        api: The cluster.
        resource: Of the job object.
        job: The last known job object.
        owner: The ownerReference to the run of the pipeline; None = there is none.

    Raises:
        ApiError: The keeper still owns the job, and its end deletes the job.
    """
    meta = job["metadata"]
    change = {
        "uid": meta["uid"],
        "ownerReferences": [owner] if owner else None,
        "annotations": {KEPT_UNTIL: None},
    }
    api.patch(resource, meta["namespace"], meta["name"], {"metadata": change})
    for reference in meta.get("ownerReferences") or []:
        if (reference["apiVersion"], reference["kind"]) == (KEEPERS.api, KEEPERS.kind):
            with contextlib.suppress(ApiError):  # it ends by itself
                api.delete(KEEPERS, meta["namespace"], reference["name"], reference["uid"])
