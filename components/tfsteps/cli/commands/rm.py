"""`tfsteps rm`: removes the folders of runs of this machine."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from tfsteps.backends.local.backend import LocalBackend
from tfsteps.cli.completion import complete_run
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.text import clean
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.os_errors import next_step
from tfsteps.runs import removal
from tfsteps.runs.retention import RunRecords, read_records
from tfsteps.spec import format_bytes

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be removed, and change nothing.")]


def rm(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="Ids of runs, the beginning of one, or `latest`.", autocompletion=complete_run
        ),
    ],
    *,
    demos: Annotated[bool, typer.Option("--demo", help="Remove them also if they are demos.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Remove runs of this machine: their status, logs, reports, and outputs in the run folder.

    A run whose launcher is running is not removed; stop it first. Demos are read-only. Output outside of the run
    folder, and jobs on clusters, are not touched; `tfsteps clear` removes everything of a run.
    """
    backend = LocalBackend()
    names = list(dict.fromkeys(map(backend.resolve_id, runs)))
    records = [read_records(name, demos=demos) for name in names]
    for record in records:  # all, before anything is removed
        if record.in_use:
            raise CommandError(f"run {record.run} cannot be removed: {record.in_use}; nothing was removed")
    with reading():
        extents = [removal.extent(record.run) for record in records]
        for record in records:
            removal.check_unused(record.run, demos=demos)
    errors = []
    for record, extent in zip(records, extents, strict=True):
        if not dry_run and (error := remove(record.run, demos=demos)):
            errors.append(error)
            continue
        removed = outcome(record.run, dry_run=dry_run)
        count = f"{extent.attempts} attempt{'s' * (extent.attempts != 1)}"
        print("\n".join([f"{removed}: {count}, {format_bytes(extent.size)}", *notes(record)]))
        if not dry_run and (left := record.left_elsewhere):
            why = "it was left running" if left.detached else "its launcher was killed"
            warn(f"run {record.run}: job {clean(left.job)} may continue, as {why}")
    fail(errors)


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Raise CommandError for an OSError in the block, which reads what is to be removed."""
    try:
        yield
    except OSError as denied:
        why = f"{denied.filename} cannot be read: {(denied.strerror or str(denied)).lower()}"
        fix = "remove it as its owner" if isinstance(denied, PermissionError) else next_step(denied)
        raise CommandError(f"{why}; nothing was removed; {fix}", ExitCode.PLATFORM) from denied


def outcome(run: str, *, dry_run: bool) -> str:
    """Return what happened to a run that is to be removed."""
    return f"{clean(run)} {'would be removed' if dry_run else 'removed'}"


def remove(run: str, task: str = "", *, demos: bool = False) -> str:
    """Remove a run, or the attempts at a task of it. Return what failed, for `fail`; empty = nothing."""
    try:
        removal.remove(run, task, demos=demos)
    except removal.InUseError as error:  # it was started, or marked as a demo, meanwhile
        return str(error)
    except OSError as error:
        return f"run {run} cannot be removed completely: {error}"
    return ""


def fail(errors: Sequence[str]) -> None:
    """Raise one CommandError for the runs that could not be removed, if there are any."""
    if errors:
        raise CommandError("; ".join([*errors, "fix the cause and retry"]), ExitCode.PLATFORM)


def notes(records: RunRecords) -> list[str]:
    """Return a line for each output folder that is not removed with the run."""
    return [f"  not removed: output {clean(path)}" for path in outputs_elsewhere(records)]


def outputs_elsewhere(records: RunRecords) -> list[str]:
    """Return the output folders of a run that are outside of its folders."""
    outputs = dict.fromkeys(status.output for status in records.statuses if status.output)
    return [path for path in outputs if not removal.contains(records.run, path)]
