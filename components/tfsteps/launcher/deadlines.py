"""Which of a job's deadlines has passed, by the launcher's own clock."""

from collections.abc import Mapping, Sequence

import msgspec

from tfsteps.runs.events import (
    TICK_SECONDS,
    Event,
    JobChanged,
    LogLines,
    ReplicaChanged,
    ReplicaName,
    ReplicaState,
    State,
    Tick,
    UsageSampled,
)
from tfsteps.runs.status import Status
from tfsteps.spec import Deadlines, format_duration

_LONGEST_STEP = 5.0  # between two ticks; a longer time means that this process was paused
_NAMES = ("queue", "pending", "running", "no_progress", "total")  # the most specific one first
_HELD = {State.QUEUED, State.SUSPENDED}
_NOTICE_SECONDS = 600.0  # mostly longer than it takes to pull images and add nodes

_NOTABLE_SECONDS = 10.0
_WIDTH = 120  # characters of a line
_UP = (ReplicaState.RUNNING, ReplicaState.PENDING)


class Silence(msgspec.Struct, frozen=True):
    """The replica without output for the longest time.

    Attributes:
        replica: Its name; empty = none was silent.
        incarnation: Number of its incarnation.
        seconds: How long it was silent.
        line: Its last line; empty = it has printed nothing.
        early: Names of the trainers that had ended with 0 while others trained, which may wait for them.
    """

    replica: str = ""
    incarnation: int = 0
    seconds: float = 0.0
    line: str = ""
    early: list[str] = []

    def sentence(self, frame: str) -> str:
        """Return what is known of it, in sentences; empty = nothing. `frame` is where it stood; empty = not known."""
        parts = []
        if self.replica:
            last = f"; its last line: {self.line[:_WIDTH]}" if self.line else ""
            place = f"; it stood at {frame}" if frame else ""
            parts.append(f"{self.replica} printed nothing for {self.seconds:.0f} s{place}{last}.")
        if self.early:
            parts.append(f"{', '.join(self.early)} had ended with exit code 0, and the others may wait for that.")
        return " ".join(parts)


def silence(status: Status, outputs: Mapping[str, tuple[float, str]], now: float, limit: float) -> Silence:
    """Return the silence of a job's replicas.

    Args:
        status: Of the running job.
        outputs: When each replica printed last, in seconds since the epoch, and what.
        now: Seconds since the epoch.
        limit: The deadline that has passed, in seconds: no silence is shorter than that or 10 seconds.
    """
    trainers = [replica for replica in status.replicas if replica.role in ("chief", "worker")]
    early = [replica.name for replica in trainers if replica.state is ReplicaState.SUCCEEDED]
    servers = any(replica.role == "ps" for replica in status.replicas)
    early = [] if servers or len(early) == len(trainers) else early
    running = {
        replica.name: replica.incarnations[-1]
        for replica in status.replicas
        if replica.state in _UP and replica.incarnations
    }
    printed = [(*outputs.get(name, (last.started, "")), name) for name, last in running.items()]
    at, line, name = min(printed, default=(now, "", ""))
    if not name or now - at < min(limit, _NOTABLE_SECONDS):
        return Silence(early=early)
    return Silence(name, running[name].number, now - at, line, early)


class Exceeded(msgspec.Struct, frozen=True):
    """A deadline that has passed.

    Attributes:
        name: Its field in `deadlines`.
        limit: Seconds allowed.
        detail: What the job system reported about the job at that time; empty = nothing.
        silence: Which replica was silent.
    """

    name: str
    limit: float
    detail: str = ""
    silence: Silence = Silence()

    def message(self, waiting: Sequence[str], frame: str) -> str:
        """Return what happened, in sentences.

        Args:
            waiting: Names of the replicas that were pending.
            frame: Where the silent replica stood; empty = not known.
        """
        pending = f"Still pending: {', '.join(waiting)}." if self.name == "pending" and waiting else ""
        passed = f"Deadline `{self.name}` passed after {format_duration(self.limit)}."
        return " ".join(filter(None, (passed, pending, self.detail, self.silence.sentence(frame))))


class Clock:
    """Follows one job and reports when one of its deadlines has passed.

    Counts the seconds of a monotonic clock in which the job could be seen, from tick to tick. The time stamps of events
    are not used: they come from other machines, whose clocks may be wrong, or from hours ago. Not counted is the time
    in which the job system did not answer, and in which this process stood still (SIGSTOP, a paused machine).

    | state | counts, besides `total` |
    |---|---|
    | queued, before any other state | `queue` |
    | queued later, for example after a pre-emption | |
    | suspended | |
    | any other, before all replicas have started | `pending` and `no_progress`; `running` if the job runs |
    | any other, later | `running` and `no_progress` |

    `queue`, `pending` and `running` go on where they stopped, `no_progress` begins again. An unknown state changes
    nothing. For an adopted job, only `total` includes earlier time: all others begin
    when the follower sees their state.
    """

    def __init__(self, limits: Deadlines, now: float) -> None:
        """Follow from `now` on, in seconds of a monotonic clock."""
        self._limits = limits
        self._now = now
        self._visible = False
        self._seconds = dict.fromkeys(_NAMES, 0.0)
        self._counting: set[str] = set()  # deadlines that counted at the last tick
        self._progress = True  # since the last tick
        self._state: State | None = None  # None = not known yet
        self._admitted = False
        self._ran = False
        self._started = False  # whether all replicas have, at once
        self._pending: set[ReplicaName] = set()
        self._detail = ""
        self._notice_due = _NOTICE_SECONDS

    def apply(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, Tick | UsageSampled) or (isinstance(event, LogLines) and event.sidecar):
            return
        self._progress = True
        if isinstance(event, ReplicaChanged):
            (self._pending.add if event.state is ReplicaState.PENDING else self._pending.discard)(event.replica)
        elif isinstance(event, JobChanged):
            self._detail = ": ".join(part for part in (event.reason, event.message) if part)
            if event.state is not State.UNKNOWN or self._state is None:
                self._state = event.state
                self._admitted |= event.state not in _HELD
                self._ran |= event.state is State.RUNNING

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
        # only the time between two ticks at both of which the job could be seen counts
        step, self._now = now - self._now, now
        seen, stood_still = visible and self._visible, step > _LONGEST_STEP
        step = 0.0 if not seen else TICK_SECONDS if stood_still else max(step, 0.0)
        if stood_still or visible > self._visible:
            self._progress = True  # the launcher may have missed what the job printed meanwhile
        self._visible = visible
        self._started |= self._ran and not self._pending
        held = self._state in _HELD
        counts = {
            "queue": self._state is State.QUEUED and not self._admitted,
            "pending": self._admitted and not held and not self._started,
            "running": self._ran and not held,
            "no_progress": readable and not held,
            "total": True,
        }
        before, self._counting = self._counting, {name for name, counting in counts.items() if counting}
        for name in before & self._counting:
            self._seconds[name] += step
        if self._progress or "no_progress" not in self._counting:
            self._seconds["no_progress"], self._progress = 0.0, False
        for name in (name for name in _NAMES if name in self._counting):
            limit = getattr(self._limits, name)
            if limit is not None and self._seconds[name] + (age if name == "total" else 0) > limit:
                return Exceeded(name, limit, self._detail)
        return None

    def notice(self) -> str:
        """Return a sentence about a job that is pending for long while no deadline `pending` limits that; empty = none.

        Due after ten minutes, and whenever the wait has doubled. Not while the job is queued or suspended. Nobody can
        tell a replica that a policy refuses from one that waits for room: so no deadline ends either by default.
        """
        waited = self._seconds["pending"]
        if "pending" not in self._counting or self._limits.pending is not None or waited < self._notice_due:
            return ""
        self._notice_due = 2 * waited
        reason = f" ({self._detail.rstrip('.')})" if self._detail else ""
        total = format_duration(self._limits.total)
        return (
            f"Still pending after {format_duration(round(waited))}{reason}. No deadline `pending` is set: "
            f"the job waits until `total`, {total}, has passed."
        )
