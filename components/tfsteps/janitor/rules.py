"""What is due for a job whose launcher may be lost. Pure, except for two callbacks, which are called only if needed."""

import datetime as dt
import enum
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from tfsteps.engines.registry import owner_of
from tfsteps.runs.events import State
from tfsteps.spec import format_duration
from tfsteps.systems.kubernetes.cleanup.retention import KEPT_UNTIL, RetentionPolicy, retention_policy
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.times import job_ended

PATIENCE_SECONDS = 60.0
"""Seconds after a deadline, or after the end of a job, in which a launcher can act: its report is better than ours."""


class DefaultRetention(msgspec.Struct, frozen=True, kw_only=True):
    """The retention of ended jobs without `keep_for`.

    Attributes:
        succeeded: Seconds that a job is kept after it has succeeded; None = for ever.
        failed: The same for every other end: failed, cancelled, lost.
    """

    succeeded: float | None = None
    failed: float | None = None

    def option_for(self, state: State) -> tuple[str, float | None]:
        """Return the option that applies to an ended job, and its seconds; None = for ever."""
        if state is State.SUCCEEDED:
            return "--keep-succeeded", self.succeeded
        return "--keep-failed", self.failed


FOR_EVER = DefaultRetention()

DEFAULT = DefaultRetention(failed=30 * 86_400.0)
"""Of a janitor that was told nothing: failed jobs, whose pods are kept, do not pile up. Nobody is away for longer."""


class Reason(enum.StrEnum):
    """Why something is deleted or stopped; a label of the metrics."""

    ABANDONED = "abandoned"  # its Workflow has ended, and no launcher will adopt it
    DEADLINE = "deadline"  # its deadline `total` has passed
    KEEP_FOR = "keep_for"  # its own `keep_for` has passed
    RETENTION = "retention"  # the default retention of the janitor has passed
    KEPT_FOR_RETRY = "kept_for_retry"  # no retry came, and Kubernetes did not delete it


class Due(msgspec.Struct, frozen=True):
    """What is to be deleted of a job: all of it, or its pods; the reason, and a sentence that explains it."""

    what: Literal["job", "pods"]
    reason: Reason
    why: str


def due(
    kind: JobKind,
    item: Mapping[str, Any],
    now: float,
    *,
    why_abandoned: Callable[[], str],
    has_pods: Callable[[], bool],
    default: DefaultRetention = FOR_EVER,
) -> Due | None:
    """Return what is due for a job; None = nothing.

    Args:
        kind: Kind of the job.
        item: The job object.
        now: Seconds since the epoch by the API server's clock; -inf = not known: nothing is due because of its age.
        why_abandoned: Returns why no launcher will adopt the job, according to its pipeline; empty = one may.
        has_pods: Tells whether the job has pods.
        default: The retention of ended jobs without `keep_for`.
    """
    if "deletionTimestamp" in item["metadata"]:
        return None
    state, policy = kind.verdict(item).state, retention_policy(item)
    late = None if policy.kept_until is None else _after_keeping(now - policy.kept_until)
    if late or (policy.kept_until is not None and not policy.kept_for_try):
        return late
    if not state.terminal:
        return _unneeded(item, now, why_abandoned, "job", f"it is {state}")
    expired = _expired(item, now, policy) or _past_default(item, now, policy, default.option_for(state), why_abandoned)
    if expired:
        return expired
    on_end = policy.on_end or ("delete_pods" if state is State.SUCCEEDED else "keep")
    if on_end == "keep" or (on_end == "delete_pods" and not has_pods()):
        return None
    what: Literal["job", "pods"] = "job" if on_end == "delete" else "pods"
    return _unneeded(item, now, why_abandoned, what, f"it has {state}, on_end is {on_end}")


def _after_keeping(late: float) -> Due | None:
    """Return what is due for a job that Kubernetes deletes itself when it was kept for long enough."""
    why = f"the time that it was kept for a retry ended {format_duration(late)} ago"
    return Due("job", Reason.KEPT_FOR_RETRY, why) if late > PATIENCE_SECONDS else None


def _expired(item: Mapping[str, Any], now: float, policy: RetentionPolicy) -> Due | None:
    """Return what is due for an ended job by its own `keep_for`."""
    keep, ended = policy.keep_for, job_ended(item)
    if keep is None or ended is None or now <= ended + keep:
        return None
    why = f"it ended {format_duration(now - ended)} ago, keep_for is {format_duration(keep)}"
    return Due("job", Reason.KEEP_FOR, why)


def _past_default(
    item: Mapping[str, Any],
    now: float,
    policy: RetentionPolicy,
    default: tuple[str, float | None],
    why_abandoned: Callable[[], str],
) -> Due | None:
    """Return what is due for an ended job by the default: nothing while a launcher may still need the job."""
    (option, keep), ended = default, job_ended(item)
    if keep is None or ended is None or policy.keep_for is not None or now <= ended + max(keep, PATIENCE_SECONDS):
        return None
    if KEPT_UNTIL in (item["metadata"].get("annotations") or {}):  # it is kept, whatever time that is
        return None
    launched = owner_of(item) is not None or policy.elsewhere  # a launcher may come, or may have to report its end
    if not policy.reported and launched and not why_abandoned():
        return None
    why = f"it ended {format_duration(now - ended)} ago, {option} is {format_duration(keep)}"
    return Due("job", Reason.RETENTION, why)


def _unneeded(
    item: Mapping[str, Any], now: float, why_abandoned: Callable[[], str], what: Literal["job", "pods"], state: str
) -> Due | None:
    """Return what is due for a job in this `state` after its deadline, or without a launcher that may adopt it."""
    created = dt.datetime.fromisoformat(item["metadata"]["creationTimestamp"]).timestamp()
    if why := overdue(retention_policy(item).deadline, created, now):
        return Due(what, Reason.DEADLINE, f"{state}, and {why}")
    why = why_abandoned()
    return Due(what, Reason.ABANDONED, f"{state}, and {why}") if why else None


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
