"""Which dates of a schedule start a run now, decided from what was decided before and the runs' own state. Pure.

Dates are decided in their order: a date starts a run, or it is missed. So `State.decided_to` alone says which dates may
never start a run again, whatever became of their runs and of the records. It never decreases, whatever the clocks do.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tfsteps.schedule.fires import fire_times
from tfsteps.schedule.parse import from_plain
from tfsteps.schedule.types import Schedule, utc

RunState = Literal["pending", "running", "succeeded", "failed"]
Result = Literal["sent", "succeeded", "failed", "removed", "missed"]
"""What became of a date. sent = its run was started, and its end is not known yet; removed = its run is gone, and its
end was not seen; missed = no run was started, nor will be."""

_MOST_DATES = 400  # that are decided in one step, and whose records are kept: about 16 KB
_MOST_STARTS = 50  # of runs in one step
_WHEN = ("cron", "interval", "timezone", "start", "end")


class DateRecord(msgspec.Struct, frozen=True):
    """A date, in seconds since the epoch, what became of it, and the uid of its run; empty = it was missed."""

    date: int
    result: Result
    run: str = ""


class RuleState(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided.

    Attributes:
        decided_to: Every date up to this one is decided; seconds since the epoch.
        when: The fields of the schedule that its dates follow from, as they were.
        records: The newest dates that are decided, in their order.
        changes: How often something was decided; makes each stored state another one.
    """

    decided_to: int
    when: dict[str, Any]
    records: tuple[DateRecord, ...] = ()
    changes: int = 0


class DueRuns(msgspec.Struct, frozen=True, kw_only=True):
    """What is due.

    Attributes:
        state: With all but the dates of `start`.
        start: Dates whose runs start now, in their order.
        missed: Dates that are missed since the last decision.
        stop: Dates whose runs are stopped: newer ones replace them.
        remove: Dates whose runs have ended, and are more than `history` keeps.
        waiting: Dates that are due and start later.
        why: Why they wait, as a phrase; empty = none does.
        more: Whether further dates are due, which this decision did not look at.
    """

    state: RuleState
    start: tuple[int, ...] = ()
    missed: tuple[int, ...] = ()
    stop: tuple[int, ...] = ()
    remove: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    why: str = ""
    more: bool = False

    def started(self, runs: Mapping[int, str]) -> RuleState:
        """Return the state after the runs of the first dates of `start` exist; `runs` are their uids by date."""
        return _decided(self.state, [DateRecord(date, "sent", uid) for date, uid in runs.items()])


def when(schedule: Schedule) -> dict[str, Any]:
    """Return the fields that the dates of a schedule follow from."""
    return {field: value for field in _WHEN if (value := getattr(schedule, field)) is not None}


def dates_after(schedule: Schedule, created: float, after: int) -> Iterator[int]:
    """Yield the dates of a schedule after `after`, and never before its start. In seconds since the epoch.

    Args:
        schedule: The schedule.
        created: When it was created.
        after: A time.
    """
    origin = schedule.origin(created)
    if not schedule.interval:
        yield from fire_times(replace(schedule, start=None), max(origin, after))
        return
    step = int(schedule.interval)
    for number in itertools.count(max((after - origin) // step, 0) + 1):
        if schedule.ended(date := origin + number * step):
            return
        yield date


def decide(
    schedule: Schedule,
    created: float,
    state: RuleState | None,
    runs: Mapping[int, RunState],
    now: float,
    *,
    paused: bool = False,
    accepted: float = 0.0,
) -> DueRuns:
    """Return what is due.

    Args:
        schedule: The schedule.
        created: When it was created, in seconds since the epoch.
        state: What was decided before; None = nothing, it is new.
        runs: The state of each run that exists and is recorded, by its date.
        now: Seconds since the epoch.
        paused: Whether no run starts.
        accepted: Runs of dates up to this time need not have succeeded for `depends_on_past`.

    Raises:
        SpecError: The fields of the schedule in `state` are not valid.
    """
    state = state or RuleState(decided_to=min(schedule.origin(created), int(created)), when=when(schedule))
    state = replace(state, records=tuple(_observed(record, runs) for record in state.records))
    missed: tuple[int, ...] = ()
    if state.when != when(schedule):
        # The dates that were due before the change and wait are missed: the new schedule has others.
        before = from_plain({**state.when, "catch_up": True})
        missed = tuple(_first(dates_after(before, created, state.decided_to), now))
        state = _missed(state, missed)
        if len(missed) == _MOST_DATES:
            return DueRuns(state=state, missed=missed, more=True)
        state = replace(state, decided_to=max(state.decided_to, int(now)), when=when(schedule))
    active = [record.date for record in state.records if record.result == "sent"]
    newest = (schedule.expired_limit or 1) if schedule.concurrency == "replace" else None
    settled = DueRuns(
        state=state, missed=missed, stop=_older(active, state, newest), remove=_beyond_history(schedule, state, runs)
    )
    due = _first(dates_after(schedule, created, state.decided_to), now)
    if paused or not due:
        return settled
    late = [date for date in due if schedule.starting_deadline and date < now - schedule.starting_deadline]
    kept = due[len(late) :][-((newest or len(due)) if schedule.catch_up else 1) :]
    more = len(due) == _MOST_DATES
    if more and (newest or not schedule.catch_up):
        kept = []  # newer dates may be due; which are the newest ones is not known yet
        late = due[: -(newest or 1)]
    lost = tuple(due[: len(due) - len(kept)]) if kept else tuple(late)
    settled = replace(settled, state=_missed(state, lost), missed=(*missed, *lost), more=more)
    why = _blocked(schedule, state, len(active), accepted)
    start = () if why else tuple(kept[: min(_room(schedule, len(active)), _MOST_STARTS)])
    waiting = tuple(kept[len(start) :])
    if waiting and not why:
        why = f"runs in progress: {len(active) + len(start)}"
    stop = _older([*active, *start], settled.started(dict.fromkeys(start, "")), newest)
    return replace(settled, start=start, stop=stop, waiting=waiting, why=why if waiting else "")


def _first(dates: Iterator[int], now: float) -> list[int]:
    return list(itertools.islice(itertools.takewhile(lambda date: date <= now, dates), _MOST_DATES))


def _observed(record: DateRecord, runs: Mapping[int, RunState]) -> DateRecord:
    """Return a record with the end of its run. A failed run may be retried, so its end may change while it exists."""
    run = runs.get(record.date)
    if record.result == "missed" or (run is None and record.result != "sent"):
        return record
    if run is None:
        return replace(record, result="removed")
    return replace(record, result=run if run in ("succeeded", "failed") else "sent")


def _missed(state: RuleState, dates: Sequence[int]) -> RuleState:
    return _decided(state, [DateRecord(date, "missed") for date in dates])


def _decided(state: RuleState, decided: Sequence[DateRecord]) -> RuleState:
    """Return the state after dates that are later than all dates that are decided."""
    if not decided:
        return state
    records = (*state.records, *decided)
    ended = [record for record in records if record.result != "sent"]
    dropped = {record.date for record in ended[:-_MOST_DATES]}
    kept = tuple(record for record in records if record.date not in dropped)
    return replace(state, records=kept, decided_to=decided[-1].date)


def _room(schedule: Schedule, active: int) -> int:
    """Return how many runs may start beside those in progress."""
    match schedule.concurrency:
        case "forbid":
            return max(1 - active, 0)
        case "allow" if schedule.max_active_runs is not None:
            return max(schedule.max_active_runs - active, 0)
        case _:
            return _MOST_DATES


def _blocked(schedule: Schedule, state: RuleState, active: int, accepted: float) -> str:
    """Return why no run starts although there is room for one; empty = it starts."""
    last = next((record for record in reversed(state.records) if record.result != "missed"), None)
    if not schedule.depends_on_past or active or last is None or last.date <= accepted or last.result == "succeeded":
        return ""
    end = "failed" if last.result == "failed" else "was removed before its end was seen"
    return f"the run of {utc(last.date)} {end}, and `depends_on_past` is set"


def _older(active: list[int], state: RuleState, newest: int | None) -> tuple[int, ...]:
    """Return the dates in progress that are none of the `newest` dates with a run; None = all may be in progress."""
    if newest is None:
        return ()
    kept = [record.date for record in state.records if record.result != "missed"][-newest:]
    return tuple(date for date in active if date not in kept)


def _beyond_history(schedule: Schedule, state: RuleState, runs: Mapping[int, RunState]) -> tuple[int, ...]:
    """Return the oldest runs that have ended, beyond those that `history` keeps."""
    beyond: list[int] = []
    for result, count in (("succeeded", schedule.history.successful), ("failed", schedule.history.failed)):
        if count is not None:
            ended = [record.date for record in state.records if record.result == result and record.date in runs]
            beyond += ended[: max(len(ended) - count, 0)]
    return tuple(sorted(beyond))
