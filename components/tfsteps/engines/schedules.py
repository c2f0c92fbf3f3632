"""Schedules as their engines have them: when they fire, and the runs that they and users started."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Literal, Protocol

import msgspec

from tfsteps.kube.client import Api
from tfsteps.runs.identity import PREFIX
from tfsteps.schedule import Schedule
from tfsteps.schedule.fires import fire_times

SCHEDULE = f"{PREFIX}schedule"
"""Label of the Workflows that a user started from a schedule: its name."""

Outcome = Literal["pending", "running", "succeeded", "failed", "cancelled", "removed", "missed", "waiting", "unknown"]
_WEEK = 7 * 86400.0
_MOST_FIRES = 20_000  # those of two weeks, one a minute


class ScheduledRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a schedule, or a date for which no run is known.

    Attributes:
        name: The name of its object, or its id; empty = no run is known: it was skipped, or its object was removed.
        planned: The date, in seconds since the epoch; None = a user started it, or its object does not say.
        sent: When it was created, in seconds since the epoch; None = no run is known.
        outcome: What became of it, as its object says. Of schedules whose rules the janitor keeps: removed = its object
            is gone, and its end was not seen; missed = no run starts for this date; waiting = it starts later.
        manual: Whether a user started it from the schedule.
    """

    name: str = ""
    planned: float | None = None
    sent: float | None = None
    outcome: Outcome = "unknown"
    manual: bool = False


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule.

    Attributes:
        name: Its name, which users choose.
        id: Its uid or id; no other schedule has it.
        kind: What it is: CronWorkflow, CronJob, recurring run.
        namespace: Of its runs; empty = not known.
        when: The schedule as text.
        schedule: When it fires; None = that cannot be computed.
        created: Seconds since the epoch.
        paused: Whether it starts no runs.
        runs: The runs that are known, the newest first.
        unknown: Why its runs are not known, or not all of them, as a sentence; empty = all that exist are.
        waiting: Why dates that are due wait, as a phrase; empty = none is known to wait.
        catches_up: Whether each date has a run, in order, also those between its `start` and its creation.
    """

    name: str
    id: str
    kind: str
    namespace: str
    when: str
    schedule: Schedule | None
    created: float
    paused: bool
    runs: list[ScheduledRun]
    unknown: str = ""
    waiting: str = ""
    catches_up: bool = False

    def next_fire(self, now: float) -> int | None:
        """Return when it fires next, in seconds since the epoch; None = never, or that is not known.

        Argo counts an interval from the start of its controller, so only that of another scheduler is known.
        """
        if self.paused or self.schedule is None or not self.schedule.cron:
            return None
        return next(fire_times(self.schedule, now), None)

    def records(self, now: float) -> list[ScheduledRun]:
        """Return the runs and, between the oldest of them and now, the dates without a run, the newest first.

        Of a schedule without runs, the dates of the last week; of dates without a run, at most the last 20,000.
        """
        dates: Iterable[int] = ()
        if self.schedule is not None and self.schedule.cron:
            begin = self.created
            if self.catches_up and self.schedule.starts is not None:
                begin = min(begin, self.schedule.starts - 1)
            first = min((run.planned for run in self.runs if run.planned is not None), default=now - _WEEK)
            after = max(begin, first - 1)
            fires = itertools.takewhile(lambda at: at <= now, fire_times(self.schedule, after))
            dates = deque(fires, _MOST_FIRES)  # the last ones
        started = {run.planned for run in self.runs}
        missing = [ScheduledRun(planned=at, outcome=self._outcome(at)) for at in dates if at not in started]
        return list(heapq.merge(self.runs, reversed(missing), key=_time, reverse=True))

    def _outcome(self, at: int) -> Outcome:
        """Return what became of a date without a run that is known."""
        sent = [run.planned for run in self.runs if run.planned is not None]
        if not self.catches_up or (self.unknown and not sent):
            return "unknown"
        return "waiting" if all(at > planned for planned in sent) else "unknown"


def _time(run: ScheduledRun) -> float:
    return run.planned if run.planned is not None else run.sent or 0.0


def newest_first(runs: Iterable[ScheduledRun]) -> list[ScheduledRun]:
    """Return runs by their dates; those that a user started, by their creation."""
    return sorted(runs, key=_time, reverse=True)


class Schedules(Protocol):
    """The schedules of one engine in one place. Each method raises `CommandError` if the engine refuses."""

    def states(self) -> list[ScheduleState]:
        """Return all schedules that `EnginePlugin.schedule_objects` names, with their runs."""

    def set_paused(self, state: ScheduleState, *, paused: bool) -> None:
        """Make a schedule start no further runs, or start them again. Runs that exist are not stopped."""

    def run_now(self, state: ScheduleState) -> str:
        """Start a manual run of what a schedule runs, and return its name. It does not count as a run of a date."""

    def deleted_with(self, state: ScheduleState) -> Iterator[str]:
        """Yield a line for each object that `delete` removes."""

    def delete(self, state: ScheduleState) -> None:
        """Remove a schedule. Nothing of another schedule of the same name, created later, is removed."""


class SchedulePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command looks for schedules. Empty = not set.

    Attributes:
        everywhere: In all namespaces.
        host: The address of the engine's API, if it has one.
        server_timezone: The time zone in which that API reads schedules.
    """

    context: str = ""
    namespace: str = ""
    everywhere: bool = False
    host: str = ""
    server_timezone: str = "UTC"


OpenSchedules = Callable[[SchedulePlace], AbstractContextManager[Schedules]]
"""Yields the schedules of a place; `CommandError` if it cannot be reached, or refuses what a method does."""


class Kept(msgspec.Struct, kw_only=True):
    """What a pass over the schedules did whose rules the janitor keeps.

    Attributes:
        schedules: How many were looked at.
        started: How many runs were started, or would be.
        failures: How often it failed; each was reported.
    """

    schedules: int = 0
    started: int = 0
    failures: int = 0


class KeepSchedules(Protocol):
    """Makes one pass: starts the runs of the dates that are due. Failures are reported and left to the next pass."""

    def __call__(self, api: Api, namespace: str, say: Callable[[str], object], dry_run: bool, /) -> Kept:
        """Return what it did.

        Args:
            api: The cluster; its `stopping` ends a pass by `Stopped`.
            namespace: Of the schedules; empty = all.
            say: Receives a line for each action and for each failure.
            dry_run: Only report what is due.
        """
