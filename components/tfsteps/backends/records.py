"""The records on this machine of jobs elsewhere, and their launchers and pipelines as nodes of a graph."""

import pathlib
from collections.abc import Iterable, Sequence

import msgspec

from tfsteps.runs.graph import Node, NodeKind
from tfsteps.runs.pipeline_record import PipelineRecord, StepRecord
from tfsteps.runs.status import ABANDONED, Status
from tfsteps.runs.store import AttemptFolder


class Record(msgspec.Struct, frozen=True):
    """What a launcher on this machine recorded of a job: the attempt's folder, and the status as last written."""

    attempt: AttemptFolder
    status: Status


def record_of(status: Status) -> Record | None:
    """Return the record of the job of `status`; None if it was launched elsewhere, or the record cannot be read."""
    attempt = AttemptFolder.of(status.identity)
    try:
        recorded = attempt.status()
    except OSError:
        return None
    return Record(attempt, recorded) if recorded.uid == status.uid else None


def reports_of(records: Iterable[Record | None]) -> list[pathlib.Path | None]:
    """Return the report of each record; None = it has none, or there is no record."""
    return [record.attempt.report if record and record.attempt.report.exists() else None for record in records]


def recorded_job(attempt: AttemptFolder) -> bytes:
    """Return the job of an attempt with its defaults, as JSON; empty if it is not recorded or cannot be read."""
    try:
        return (attempt.folder / "job.json").read_bytes()
    except OSError:
        return b""


def recorded_launcher(status: Status) -> Node | None:
    """Return the launcher of a job that this machine records; None = it was launched elsewhere, or has ended well."""
    record = record_of(status)
    if record is None or not record.status.launcher:
        return None
    process = record.attempt.launcher
    place = process.name if process else f"pid {record.status.launcher}"
    node = Node(kind=NodeKind.LAUNCHER, name=place, started=record.status.created, place=place)
    alive = record.attempt.alive()
    if alive.yes:
        return msgspec.structs.replace(node, state="running")
    if alive.unknown:
        return msgspec.structs.replace(node, state="unknown", message=alive.why)
    if record.status.reason == ABANDONED:
        return msgspec.structs.replace(node, state="gone", message="it was killed", ended=record.status.ended)
    return None


def pipeline_node(record: PipelineRecord, steps: Sequence[StepRecord]) -> Node:
    """Return a pipeline of this machine.

    Args:
        record: Its record.
        steps: The tries of its steps that launched no job, in the order of their starts.
    """
    tries: dict[str, list[StepRecord]] = {}
    for step in steps:
        tries.setdefault(step.name, []).append(step)
    return Node(
        kind=NodeKind.PIPELINE,
        name=record.pipeline,
        state=record.state.value,
        started=record.created,
        ended=record.ended,
        message=record.message,
        children=tuple(_step(record, of_step) for of_step in tries.values()),
    )


def _step(record: PipelineRecord, tries: Sequence[StepRecord]) -> Node:
    """Return a step with the state of its last try."""
    last = tries[-1]
    log = record.log_of(last)
    return Node(
        kind=NodeKind.STEP,
        name=last.name,
        state=last.state.value,
        started=last.started,
        ended=last.ended,
        restarts=len(tries) - 1,
        message=last.why,
        links={"log": str(log)} if log else {},
    )
