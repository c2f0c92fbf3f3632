"""The records on this machine of jobs that were found elsewhere."""

import pathlib
from collections.abc import Iterable

import msgspec

from tfsteps.runs.status import Status
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
