"""Decides which ended runs of this machine are kept, by age and number."""

from collections.abc import Iterator, Sequence

import msgspec

from tfsteps.runs import store
from tfsteps.runs.lost_launcher import may_continue
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.removal import InUseError, check_unused
from tfsteps.runs.status import CLOCK_SECONDS, Status


class RunRecords(msgspec.Struct, frozen=True):
    """What the records of a run say.

    Attributes:
        run: Its id.
        statuses: The status of each attempt that can be read.
        pipeline: The record of its pipeline; None = it is no pipeline of this machine.
        problem: Why its records do not show whether it has ended; empty = they do.
        in_use: What uses it on this machine, or that it is a demo; a clause; empty = nothing.
    """

    run: str
    statuses: Sequence[Status] = ()
    pipeline: PipelineRecord | None = None
    problem: str = ""
    in_use: str = ""

    @property
    def ended(self) -> float | None:
        """When its last attempt, or its pipeline, ended, in seconds since the epoch; None = not known."""
        times = [status.ended or status.created for status in self.statuses]
        if self.pipeline:
            times.append(self.pipeline.ended or self.pipeline.created)
        return max(times, default=None)

    @property
    def left_elsewhere(self) -> Status | None:
        """The status of an attempt that no launcher follows and whose job may continue elsewhere; None = none."""
        return next(filter(may_continue, self.statuses), None)


class RetentionDecision(msgspec.Struct, frozen=True):
    """Whether a run is kept.

    Attributes:
        records: What is known of the run.
        kept: Why it is kept, a clause; empty = it is to be removed.
    """

    records: RunRecords
    kept: str = ""


def read_records(run: str, *, demos: bool = False) -> RunRecords:
    """Return the records of a run. A demo counts as in use, unless `demos`."""
    statuses: list[Status] = []
    problem, in_use = "", ""
    try:
        check_unused(run, demos=demos)
        for attempt in store.attempts(run):
            try:
                statuses.append(attempt.status())
            except store.UnreadableError as error:
                problem = problem or str(error)
    except InUseError as error:
        in_use = error.why
    except OSError as error:
        problem = f"{error.filename or store.run_folder(run)} cannot be read: {(error.strerror or str(error)).lower()}"
    pipeline = PipelineRecord.read(run)
    if not (statuses or pipeline or problem or in_use):
        problem = f"{store.run_folder(run)} has no status"
    return RunRecords(run, statuses, pipeline, problem, in_use)


def decide(
    runs: Sequence[RunRecords], now: float, older_than: float | None, keep: int | None
) -> list[RetentionDecision]:
    """Return the decision about each run, the newest first.

    Args:
        runs: All runs of this machine.
        now: Seconds since the epoch.
        older_than: Keep runs that ended less than this many seconds ago; None = the age does not count.
        keep: Keep this many of the ended runs, the newest; None = the number does not count.
    """
    newest_first = sorted(runs, key=lambda records: -(records.ended or 0.0))
    return list(_decisions(newest_first, now, older_than, keep))


def _decisions(
    runs: Sequence[RunRecords], now: float, older_than: float | None, keep: int | None
) -> Iterator[RetentionDecision]:
    position = 0  # among the ended runs
    for records in runs:
        if unfinished := _unfinished(records):
            yield RetentionDecision(records, unfinished)
            continue
        position += 1
        age = now - (records.ended or 0.0)
        if age < -CLOCK_SECONDS:
            yield RetentionDecision(records, "its end is in the future: check the clock of this machine")
        elif keep is not None and position <= keep:
            yield RetentionDecision(records, f"it is one of the newest {keep}")
        elif older_than is not None and age <= older_than:
            yield RetentionDecision(records, "it ended too recently")
        else:
            yield RetentionDecision(records)


def _unfinished(records: RunRecords) -> str:
    """Return why a run does not count as ended; empty = it has ended."""
    if records.in_use:
        return records.in_use
    if records.problem:
        return "its records cannot be read"
    if left := records.left_elsewhere:
        where = f" in namespace {left.namespace}" if left.namespace else ""
        why = "its job was left running" if left.detached else "its launcher was killed, and its job may continue"
        return f"{why}{where}; `tfsteps rm {records.run}` removes it"
    return ""
