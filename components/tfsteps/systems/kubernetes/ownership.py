"""Which pods belong to a job. Name and labels do not suffice: an earlier job may have had the same. Pure."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from tfsteps.systems.kubernetes.job_kind import DEPENDENTS, JobKind


def is_foreign(kind: JobKind, meta: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Tell whether a pod with a job's labels certainly belongs to an earlier job of that name.

    If the owners between job and pod are not known, no uid decides: then a pod that is older than the job and is being
    deleted is an earlier job's. Age alone does not decide: the clocks of two API servers may differ.

    Args:
        kind: The job's.
        meta: The pod's metadata.
        job: The job object, with its dependents under DEPENDENTS.
    """
    owned = _owned(kind, meta, job)
    return "deletionTimestamp" in meta and _is_older(meta, job) if owned is None else not owned


def is_own(kind: JobKind, meta: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Tell whether a pod certainly belongs to a job, and may be deleted for it; arguments as for `is_foreign`.

    If no uid decides, it must have the label that selects the job's pods, an owner, and not be older than the job.
    """
    owned = _owned(kind, meta, job)
    if owned is not None:
        return owned
    label, _, name = kind.selector(job["metadata"]["name"]).partition("=")
    selected = (meta.get("labels") or {}).get(label) == name
    return selected and bool(meta.get("ownerReferences")) and not _is_older(meta, job)


def _owned(kind: JobKind, meta: Mapping[str, Any], job: Mapping[str, Any]) -> bool | None:
    """Tell whether a job or one of its dependents owns a pod; None = not known."""
    uids = {item["metadata"]["uid"] for item in (job, *job.get(DEPENDENTS, ())) if "uid" in item["metadata"]}
    if any(owner["uid"] in uids for owner in meta.get("ownerReferences") or []):
        return True
    uid = kind.job_uid(meta)
    return uid == job["metadata"]["uid"] if uid else None


def _is_older(meta: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Tell whether a pod was created before a job; False if one of the times is not known."""
    times = [item.get("creationTimestamp") for item in (meta, job["metadata"])]
    if not all(times):
        return False
    pod, then = (dt.datetime.fromisoformat(str(text)) for text in times)
    return pod < then
