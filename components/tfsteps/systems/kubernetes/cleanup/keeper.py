"""Keeps a job for a retry of its run: a Kubernetes Job, the keeper, owns it and takes it away when a time is over.

The keeper makes no pods. Kubernetes itself ends it: its `activeDeadlineSeconds` fail it, its TTL deletes it, and the
garbage collector deletes the job that it owns. So a kept job ends where no launcher and no janitor runs.
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
_TEMPLATE = {  # of no pod, but policies look at it
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
    """Return what becomes of a job that outlives its launcher's pod; empty = it is to be deleted.

    If the pipeline is ending no request is sent: there is a tenth of a second.

    Args:
        api: The cluster.
        host: The launcher's pod, which was told to end.
        resource: Of the job object.
        job: The job object.
        seconds: For how long it is kept where no other pod follows; 0 = not at all.
        new: This launcher has created it.

    Raises:
        ApiError: It was to be kept, and cannot be: it is to be deleted.
    """
    if host.leaves_job(api, new=new):
        return "the job goes on, and the next attempt adopts it"
    pipeline = host.pipeline
    if not (seconds and pipeline) or pipeline.terminating or pipeline.recreates_pod or not host.is_taken_away(api):
        return ""
    return f"the job is kept until {keep(api, resource, job, pipeline.owner, seconds)} for a retry of the run"


def keep(api: Api, resource: Resource, job: Mapping[str, Any], owner: Mapping[str, Any], seconds: float) -> str:
    """Hand a job over to a new keeper, and return the time until which it is kept, as ISO 8601 by the server's clock.

    If this is interrupted between its two requests, the keeper ends without a job, and the job has its owner still.

    Args:
        api: The cluster.
        resource: Of the job object.
        job: The job object: namespace, name and uid are read.
        owner: The ownerReference to the run of the pipeline: with it the keeper goes, and then the job.
        seconds: For how long; rounded up to whole seconds.

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
    if keeper_job["spec"].get("suspend"):  # by Kueue: its time does not run
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
    """Give a kept job its owner back, and only then delete the keeper, which nothing depends on any more.

    Args:
        api: The cluster.
        resource: Of the job object.
        job: The job object as it was seen last.
        owner: The ownerReference to the run of the pipeline; None = there is none.

    Raises:
        ApiError: The job still belongs to the keeper, and goes with it.
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
