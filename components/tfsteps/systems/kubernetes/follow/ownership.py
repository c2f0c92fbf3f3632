"""Which pods belong to a job. A name and its labels do not tell: an earlier job may have had the same. Pure."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from tfsteps.systems.kubernetes.job_kind import DEPENDENTS, JobKind


def is_foreign(kind: JobKind, meta: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Tell whether a pod that has a job's labels certainly belongs to an earlier job of that name.

    Where no uid tells, for the objects between the job and the pod are not known, an earlier job's pod is older than
    the job and being deleted. Age alone does not tell: the clocks of two API servers may differ.

    Args:
        kind: The job's.
        meta: The pod's metadata.
        job: The job object, what belongs to it under DEPENDENTS.
    """
    owned = _owned(kind, meta, job)
    return "deletionTimestamp" in meta and _is_older(meta, job) if owned is None else not owned


def is_own(kind: JobKind, meta: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Tell whether a pod certainly belongs to a job, and may be deleted for it; arguments as for `is_foreign`.

    Where no uid tells, it has the label by which the job's pods are selected, an owner, and is not older than the job.
    """
    owned = _owned(kind, meta, job)
    if owned is not None:
        return owned
    label, _, name = kind.selector(job["metadata"]["name"]).partition("=")
    selected = (meta.get("labels") or {}).get(label) == name
    return selected and bool(meta.get("ownerReferences")) and not _is_older(meta, job)


def _owned(kind: JobKind, meta: Mapping[str, Any], job: Mapping[str, Any]) -> bool | None:
    """Tell whether a pod is owned by a job or by one of its parts; None = the pod does not tell."""
    uids = {item["metadata"]["uid"] for item in (job, *job.get(DEPENDENTS, ())) if "uid" in item["metadata"]}
    if any(owner["uid"] in uids for owner in meta.get("ownerReferences") or []):
        return True
    uid = kind.job_uid(meta)
    return uid == job["metadata"]["uid"] if uid else None


def _is_older(meta: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Tell whether a pod was created before a job; False where one of both times is not known."""
    times = [item.get("creationTimestamp") for item in (meta, job["metadata"])]
    if not all(times):
        return False
    pod, then = (dt.datetime.fromisoformat(str(text)) for text in times)
    return pod < then
