"""What is due for a job whose launcher may be lost. Pure, except for two callbacks, which are called only if needed."""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from tfsteps.runs.events import State
from tfsteps.spec import format_duration
from tfsteps.systems.kubernetes.cleanup.retention import retention_policy
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.times import job_ended

PATIENCE_SECONDS = 60.0
"""Seconds after a deadline in which a launcher can act on it: its report is better than the janitor's."""


class Due(msgspec.Struct, frozen=True):
    """What is to be deleted of a job: all of it, or its pods; and why, as the end of a sentence."""

    what: Literal["job", "pods"]
    why: str


def due(
    kind: JobKind,
    item: Mapping[str, Any],
    now: float,
    *,
    why_abandoned: Callable[[], str],
    has_pods: Callable[[], bool],
) -> Due | None:
    """Return what is due for a job; None = nothing.

    Args:
        kind: Kind of the job.
        item: The job object.
        now: Seconds since the epoch.
        why_abandoned: Returns why no launcher will adopt the job, according to its pipeline; empty = one may.
        has_pods: Tells whether the job has pods.
    """
    if "deletionTimestamp" in item["metadata"]:
        return None
    state, care = kind.verdict(item).state, retention_policy(item)
    if care.kept_until is not None:
        return _after_keeping(now - care.kept_until)
    if not state.terminal:
        return _because(_overdue(item, now) or why_abandoned(), "job", f"it is {state}")
    ended = job_ended(item)
    if care.keep_for is not None and ended is not None and now > ended + care.keep_for:
        return Due("job", f"it ended {format_duration(now - ended)} ago, keep_for is {format_duration(care.keep_for)}")
    policy = care.on_end or ("delete_pods" if state is State.SUCCEEDED else "keep")
    if policy == "keep" or (policy == "delete_pods" and not has_pods()):
        return None
    what: Literal["job", "pods"] = "job" if policy == "delete" else "pods"
    return _because(_overdue(item, now) or why_abandoned(), what, f"it has {state}, on_end is {policy}")


def _after_keeping(late: float) -> Due | None:
    """Return what is due for a job that Kubernetes deletes itself when it was kept for long enough."""
    why = f"the time that it was kept for a retry of its run ended {format_duration(late)} ago"
    return Due("job", why) if late > PATIENCE_SECONDS else None


def _because(why: str, what: Literal["job", "pods"], state: str) -> Due | None:
    return Due(what, f"{state}, and {why}") if why else None


def _overdue(item: Mapping[str, Any], now: float) -> str:
    created = dt.datetime.fromisoformat(item["metadata"]["creationTimestamp"]).timestamp()
    return overdue(retention_policy(item).deadline, created, now)


def overdue(limit: float | None, created: float, now: float) -> str:
    """Return whether a job's deadline `total` has passed and its launcher did not act on it; empty = no.

    Args:
        limit: The deadline, in seconds; None = there is none.
        created: When the job was created, in seconds since the epoch.
        now: The same.
    """
    if limit is None or (late := now - created - limit) < PATIENCE_SECONDS:
        return ""
    return f"its deadline `total` of {format_duration(limit)} passed {format_duration(late)} ago"
