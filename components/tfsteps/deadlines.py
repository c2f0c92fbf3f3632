"""Which of a job's deadlines has passed, from the events alone."""

import msgspec

from tfsteps.spec import Deadlines
from tfsteps.systems.base import Event, JobChanged, State, Tick


class Exceeded(msgspec.Struct, frozen=True):
    """A deadline that has passed.

    Attributes:
        name: Its field in `deadlines`.
        limit: Seconds allowed.
        said: What the job system said of the job at that time; empty = nothing.
    """

    name: str
    limit: float
    said: str = ""


class Clock:
    """Follows the events of one job and tells when one of its deadlines has passed.

    `queue` runs from creation while the job is queued, `pending` from then until all replicas run, `running` from their
    first common start to the end, restarts included; `no_progress` from the last line or change; `total` from creation.
    Where the job is older than its follower, what only a follower sees begins when it sees it.
    """

    def __init__(self, limits: Deadlines, created: float, now: float) -> None:
        """Follow from `now` on a job that was created at `created`: seconds since the epoch, as all times here."""
        self._limits = limits
        self._created = created
        self._progress = now
        self._known = False  # whether the job system has said how the job stands
        self._dequeued: float | None = None
        self._started: float | None = None
        self._said = ""

    def see(self, event: Event) -> None:
        """Take note of what happened."""
        if isinstance(event, Tick):
            return
        self._progress = event.at
        if isinstance(event, JobChanged):
            self._known = True
            self._said = ": ".join(part for part in (event.reason, event.message) if part)
            if event.state is not State.QUEUED and self._dequeued is None:
                self._dequeued = event.at
            if event.state is State.RUNNING and self._started is None:
                self._started = event.at

    def exceeded(self, now: float) -> Exceeded | None:
        """Return the deadline that has passed at `now`, the most telling one first; None if none has."""
        since = {
            "queue": self._created if self._known and self._dequeued is None else None,
            "pending": self._dequeued if self._started is None else None,
            "running": self._started,
            "no_progress": self._progress,
            "total": self._created,
        }
        for name, start in since.items():
            limit = getattr(self._limits, name)
            if limit is not None and start is not None and now - start > limit:
                return Exceeded(name, limit, self._said)
        return None
