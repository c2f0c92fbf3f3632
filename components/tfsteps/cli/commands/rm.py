"""`tfsteps rm` and `tfsteps prune`: remove the folders of runs of this machine."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import typer

from tfsteps.backends.local.backend import LocalBackend
from tfsteps.cli.completion import complete_run
from tfsteps.cli.run_options import OutputOption
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.outputs import OutputFormat, print_json
from tfsteps.console.text import clean, duration, iso
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.os_errors import next_step
from tfsteps.runs import removal, store
from tfsteps.runs.removal import RetentionDecision, RunRecords, decide, read_records
from tfsteps.spec import format_bytes
from tfsteps.spec.units import parse_duration, suggest_duration

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be removed, and change nothing.")]

_LONGEST_DAYS = 3650


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


# --- prune


class _RemovedRun(msgspec.Struct, frozen=True):
    """What happened to one run.

    Attributes:
        decision: What was decided.
        size: Bytes that were, or would be, freed.
        error: Why it could not be removed; empty = it was, or is kept.
    """

    decision: RetentionDecision
    size: int = 0
    error: str = ""

    @property
    def removed(self) -> bool:
        return not (self.decision.kept or self.error)


def prune(
    *,
    older_than: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Remove runs that ended longer ago than this, such as 30d.")
    ] = None,
    keep: Annotated[int | None, typer.Option(min=0, help="Keep at least this many ended runs, the newest.")] = None,
    dry_run: DryRun = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Remove old runs of this machine that have ended.

    With both options, a run is removed if it is old and not one of the newest. A run is kept if its launcher is
    running, if its launcher was killed and its job on a cluster may continue, or if its records cannot be read. Output
    outside of the run folders is not touched.
    """
    if older_than is None and keep is None:
        raise CommandError("--older-than or --keep is needed, such as `tfsteps prune --older-than 30d --keep 20`")
    age = None if older_than is None else _seconds(older_than)
    runs = [read_records(run) for run in store.runs()]
    lines = []
    for decision in decide(runs, time.time(), age, keep):
        if problem := decision.records.problem:
            warn(f"run {clean(decision.records.run)} is kept: {clean(problem)}")
        line = _apply(decision, dry_run=dry_run)
        if output is OutputFormat.TEXT and not line.error:
            _print(line, dry_run=dry_run)
        lines.append(line)
    if output is OutputFormat.JSON:
        print_json(_summary(lines, dry_run=dry_run))
    else:
        print(_total(lines, dry_run=dry_run))
    fail([line.error for line in lines if line.error])


def _seconds(text: str) -> float:
    """Return the value of --older-than in seconds."""
    suggestion = suggest_duration(text)
    meant = f"; did you mean {suggestion}?" if suggestion and suggestion != text else ""
    allowed = f"Allowed: a duration up to {_LONGEST_DAYS}d, such as 12h or 30d{meant}"
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise CommandError(f"--older-than {text!r} {error}. {allowed}") from error
    if text[-1:].isdigit():  # `30`, meant as days, would be 30 seconds and remove nearly all
        raise CommandError(f"--older-than {text!r} has no unit. {allowed}")
    if seconds > _LONGEST_DAYS * 86400:
        raise CommandError(f"--older-than {text!r} is too long. {allowed}")
    return seconds


def _apply(decision: RetentionDecision, *, dry_run: bool) -> _RemovedRun:
    """Remove the run if that was decided."""
    run = decision.records.run
    if decision.kept:
        return _RemovedRun(decision)
    size = removal.extent(run).size
    error = "" if dry_run else remove(run)
    return _RemovedRun(decision, 0 if error else size, error)


def _print(line: _RemovedRun, *, dry_run: bool) -> None:
    records = line.decision.records
    if line.decision.kept:
        print(f"{clean(records.run)} kept: {clean(line.decision.kept)}")
        return
    ago = duration(time.time() - (records.ended or 0.0))
    removed = outcome(records.run, dry_run=dry_run)
    print("\n".join([f"{removed}: ended {ago} ago, {format_bytes(line.size)}", *notes(records)]))


def _total(lines: Sequence[_RemovedRun], *, dry_run: bool) -> str:
    removed, kept = sum(line.removed for line in lines), sum(bool(line.decision.kept) for line in lines)
    would = " would be" if dry_run else ""
    freed = format_bytes(sum(line.size for line in lines))
    left = f", {failed} not removed" if (failed := sum(bool(line.error) for line in lines)) else ""
    return f"{removed} run{'s' * (removed != 1)}{would} removed, {kept} kept{left}, {freed}{would} freed"


def _summary(lines: Sequence[_RemovedRun], *, dry_run: bool) -> dict[str, Any]:
    runs = [
        {
            "run": line.decision.records.run,
            "removed": line.removed,
            "reason": line.decision.kept or line.error,
            "ended": iso(line.decision.records.ended),
            "bytes": line.size,
            "outputs_left": outputs_elsewhere(line.decision.records) if line.removed else [],
        }
        for line in lines
    ]
    return {"dry_run": dry_run, "bytes": sum(line.size for line in lines), "runs": runs}
