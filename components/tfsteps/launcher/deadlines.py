"""Which of a job's deadlines has passed, by the launcher's own clock."""

import msgspec

from tfsteps.runs.events import (
    TICK_SECONDS,
    Event,
    JobChanged,
    LogLines,
    Replica,
    ReplicaChanged,
    ReplicaState,
    State,
    Tick,
    UsageSampled,
)
from tfsteps.spec import Deadlines, format_duration

_LONGEST_STEP = 5.0  # between two ticks; a longer time means that this process was paused
_PHASES = ("queue", "pending", "running")
_NOTICE_SECONDS = 600.0  # mostly longer than it takes to pull images and add nodes


class Exceeded(msgspec.Struct, frozen=True):
    """A deadline that has passed.

    Attributes:
        name: Its field in `deadlines`.
        limit: Seconds allowed.
        detail: What the job system reported about the job at that time; empty = nothing.
    """

    name: str
    limit: float
    detail: str = ""


class Clock:
    """Follows one job and reports when one of its deadlines has passed.

    Counts the seconds of a monotonic clock in which the job could be seen, from tick to tick. The time stamps of events
    are not used: they come from other machines, whose clocks may be wrong, or from hours ago. Not counted is the time
    in which the job system did not answer, and in which this process stood still (SIGSTOP, a paused machine).

    `queue` runs while the job is queued, `pending` from then until the job runs and no replica is pending any more,
    `running` from the job's first start to the end, restarts included; `no_progress` from the last sign of life of a
    job that is not queued; `total` from the job's creation. Of a job that is older than its follower, only `total`
    knows that: all others begin when the follower sees their phase.
    """

    def __init__(self, limits: Deadlines, now: float) -> None:
        """Follow from `now` on, in seconds of a monotonic clock."""
        self._limits = limits
        self._now = now
        self._visible = False
        self._seconds = 0.0  # in which the job could be seen
        self._progress = True  # since the last tick
        self._phase = ""
        self._queued = False
        self._pending: set[Replica] = set()
        self._since: dict[str, float] = {}  # of the deadlines that run: the seconds when they began
        self._detail = ""
        self._notice_due = _NOTICE_SECONDS

    def see(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, Tick | UsageSampled) or (isinstance(event, LogLines) and event.sidecar):
            return
        self._progress = True
        if isinstance(event, ReplicaChanged):
            (self._pending.add if event.state is ReplicaState.PENDING else self._pending.discard)(event.replica)
        elif isinstance(event, JobChanged):
            self._detail = ": ".join(part for part in (event.reason, event.message) if part)
            self._queued = event.state is State.QUEUED
            self._phase = _later(self._phase, _phase(event.state))

    def progress(self) -> None:
        """Record progress that is not an event."""
        self._progress = True

    def tick(self, now: float, *, visible: bool, readable: bool = True, age: float = 0.0) -> Exceeded | None:
        """Return the deadline that has passed, the most specific one first; None if none has.

        Args:
            now: Of the monotonic clock.
            visible: Whether the job can be seen.
            readable: Whether its output can, without which nobody knows that there was no progress.
            age: How old the job was when it was first followed, in seconds.
        """
        self._count(now, visible=visible)
        if self._progress or self._queued or not readable:
            self._since["no_progress"], self._progress = self._seconds, False
        self._follow_phase()
        for name, since in {**dict.fromkeys(_PHASES), **self._since, "total": -age}.items():
            limit = getattr(self._limits, name)
            if limit is not None and since is not None and self._seconds - since > limit:
                return Exceeded(name, limit, self._detail)
        return None

    def notice(self) -> str:
        """Return a sentence about a job that is pending for long while no deadline `pending` limits that; empty = none.

        Due after ten minutes, and whenever the wait has doubled. Not while the job is queued. Nobody can tell a replica
        that a policy refuses from one that waits for room: so no deadline ends either by default.
        """
        since = self._since.get("pending")
        if since is None or self._limits.pending is not None or self._queued:
            return ""
        waited = self._seconds - since
        if waited < self._notice_due:
            return ""
        self._notice_due = 2 * waited
        reason = f" ({self._detail.rstrip('.')})" if self._detail else ""
        total = format_duration(self._limits.total)
        return (
            f"Still pending after {format_duration(round(waited))}{reason}. No deadline `pending` is set: "
            f"the job waits until `total`, {total}, has passed."
        )

    def _follow_phase(self) -> None:
        """Start the deadline of the job's current phase, and end the deadlines of earlier phases."""
        if self._phase and self._phase not in self._since:
            if self._phase != "queue":
                self._since.pop("queue", None)
                self._since.setdefault("pending", self._seconds)
            self._since[self._phase] = self._seconds
        if self._phase == "running" and not self._pending:
            self._since.pop("pending", None)

    def _count(self, now: float, *, visible: bool) -> None:
        """Count the time since the last tick, if the job could be seen from its beginning to its end."""
        step, self._now = now - self._now, now
        stood_still = step > _LONGEST_STEP
        if visible and self._visible:
            self._seconds += TICK_SECONDS if stood_still else max(step, 0.0)
        if stood_still or visible > self._visible:
            self._progress = True  # the launcher may have missed what the job printed meanwhile
        self._visible = visible


def _phase(state: State) -> str:
    return {State.QUEUED: "queue", State.RUNNING: "running"}.get(state, "pending")


def _later(one: str, other: str) -> str:
    return max(one, other, key=("", *_PHASES).index)
