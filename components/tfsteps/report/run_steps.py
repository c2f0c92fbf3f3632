"""What the records of this machine say about all steps of a run."""

import pathlib
import urllib.parse
from collections.abc import Iterator, Sequence

import msgspec

from tfsteps.report.formats import natural
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder

_WORST_FIRST = (State.FAILED, State.LOST, State.CANCELLED)


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a step: an attempt at a job, or the process of a step that launched none.

    Attributes:
        step: The name of the task.
        attempt: Number of the attempt at the job; None = the step launched no job.
        state: Its state.
        started: When it was created, in seconds since the epoch.
        ended: When it ended; None = it has not.
        message: Why it failed, or what its state means, in one sentence; empty = nothing is known.
        replicas: Number of its replicas.
        metrics: The metrics of the job.
        report: Address of its report, relative to the run's report; empty = there is none.
        log: File of its output, of a step that launched no job; None = there is none.
    """

    step: str
    attempt: int | None = None
    state: State
    started: float
    ended: float | None
    message: str = ""
    replicas: int = 0
    metrics: dict[str, float] = {}
    report: str = ""
    log: pathlib.Path | None = None


class RunSteps(msgspec.Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        run: Its id.
        pipeline: Name of its pipeline; empty = none.
        state: State of the run as a whole.
        message: Why it failed, or what its state means; empty = nothing is known.
        created: When it began, in seconds since the epoch.
        ended: When it ended; None = it has not, or nobody recorded it.
        tries: The tries of all steps: the steps in the order of their starts, the tries of each in their order.
        unread: Sentences about attempts whose status cannot be read.
    """

    run: str
    pipeline: str
    state: State
    message: str
    created: float
    ended: float | None
    tries: list[Try]
    unread: list[str]


def run_steps(run: str) -> RunSteps:
    """Read the records of a run."""
    record, statuses, unread = PipelineRecord.read(run), [], []
    for attempt in store.attempts(run):
        try:
            statuses.append((attempt, attempt.status()))
        except OSError as error:
            unread.append(str(error))
    jobs = [_job(attempt, status) for attempt, status in statuses]
    tries = _ordered([*jobs, *_other_steps(record, jobs)])
    state, message = _state(run, record, tries)
    ends = [item.ended for item in tries if item.ended is not None]
    return RunSteps(
        run=run,
        pipeline=record.pipeline if record else next((s.identity.pipeline for _, s in statuses), ""),
        state=state,
        message=message,
        created=record.created if record else min((item.started for item in tries), default=0.0),
        ended=record.ended if record else max(ends, default=None) if state.terminal else None,
        tries=tries,
        unread=unread,
    )


def _job(attempt: AttemptFolder, status: Status) -> Try:
    relative = f"{attempt.folder.parent.name}/{attempt.folder.name}/{attempt.report.name}"
    return Try(
        step=status.identity.task,
        attempt=status.identity.attempt,
        state=status.state,
        started=status.created,
        ended=status.ended,
        message=status.failure.summary if status.failure else status.message,
        replicas=len(status.replicas),
        metrics=status.metrics,
        report=urllib.parse.quote(relative) if attempt.report.exists() else "",
    )


def _other_steps(record: PipelineRecord | None, jobs: Sequence[Try]) -> Iterator[Try]:
    """Yield the steps that launched no job, and those that failed although their job succeeded."""
    last = {job.step: job.state for job in jobs}
    for step in record.without_job(last) if record else []:
        code, _, exception = step.why.partition(": ")
        after = ", after its job had succeeded" if step.why and step.name in last else ""
        yield Try(
            step=step.name,
            state=step.state,
            started=step.started,
            ended=step.ended,
            message=code + after + (f": {exception}" if exception else ""),
            log=record.log_of(step) if record else None,
        )


def _ordered(tries: Sequence[Try]) -> list[Try]:
    first: dict[str, float] = {}
    for item in tries:
        first[item.step] = min(item.started, first.get(item.step, item.started))
    return sorted(
        tries,
        key=lambda item: (first[item.step], natural(item.step), item.attempt is None, item.attempt or 0, item.started),
    )


def _state(run: str, record: PipelineRecord | None, tries: Sequence[Try]) -> tuple[State, str]:
    """Return the state of the run and what it means; without a pipeline, it follows from the last try of each step."""
    if record:
        return record.state, record.message
    folder = store.pipeline_folder(run)
    if folder.exists():
        alive = AttemptFolder(folder).alive()
        if alive.yes:
            return State.RUNNING, ""
        if alive.unknown:
            return State.UNKNOWN, f"It is not known whether its pipeline runs: {alive.why}."
        return State.LOST, "The process of the pipeline was killed: its end, and steps without a job, are not recorded."
    last = list({item.step: item.state for item in tries}.values())
    current = next((state for state in last if not state.terminal), None)
    worst = next((state for state in _WORST_FIRST if state in last), None)
    return current or worst or (State.SUCCEEDED if last else State.UNKNOWN), ""
