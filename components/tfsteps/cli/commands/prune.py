"""`tfsteps prune`: removes old ended runs of this machine."""

import time
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from tfsteps.cli.commands import rm
from tfsteps.cli.commands.rm import DryRun
from tfsteps.cli.commands.runs import OutputOption
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.outputs import OutputFormat, print_json
from tfsteps.console.text import clean, duration, iso
from tfsteps.runs import removal, store
from tfsteps.runs.retention import RetentionDecision, decide, read_records
from tfsteps.spec import format_bytes
from tfsteps.spec.units import parse_duration, suggest_duration

_LONGEST_DAYS = 3650


class _Line(msgspec.Struct, frozen=True):
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
    rm.fail([line.error for line in lines if line.error])


def _seconds(text: str) -> float:
    """Return the value of --older-than in seconds."""
    suggestion = suggest_duration(text)
    meant = f"; did you mean {suggestion}?" if suggestion and suggestion != text else ""
    allowed = f"Allowed: a duration up to {_LONGEST_DAYS}d, such as 12h or 30d{meant}"
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise CommandError(f"--older-than {text!r} {error}. {allowed}") from error
    if seconds > _LONGEST_DAYS * 86400:
        raise CommandError(f"--older-than {text!r} is too long. {allowed}")
    return seconds


def _apply(decision: RetentionDecision, *, dry_run: bool) -> _Line:
    """Remove the run if that was decided."""
    run = decision.records.run
    if decision.kept:
        return _Line(decision)
    size = removal.extent(run).size
    error = "" if dry_run else rm.remove(run)
    return _Line(decision, 0 if error else size, error)


def _print(line: _Line, *, dry_run: bool) -> None:
    records = line.decision.records
    if line.decision.kept:
        print(f"{clean(records.run)} kept: {clean(line.decision.kept)}")
        return
    ago = duration(time.time() - (records.ended or 0.0))
    removed = rm.outcome(records.run, dry_run=dry_run)
    print("\n".join([f"{removed}: ended {ago} ago, {format_bytes(line.size)}", *rm.notes(records)]))


def _total(lines: Sequence[_Line], *, dry_run: bool) -> str:
    removed, kept = sum(line.removed for line in lines), sum(bool(line.decision.kept) for line in lines)
    would = " would be" if dry_run else ""
    freed = format_bytes(sum(line.size for line in lines))
    left = f", {failed} not removed" if (failed := sum(bool(line.error) for line in lines)) else ""
    return f"{removed} run{'s' * (removed != 1)}{would} removed, {kept} kept{left}, {freed}{would} freed"


def _summary(lines: Sequence[_Line], *, dry_run: bool) -> dict[str, Any]:
    runs = [
        {
            "run": line.decision.records.run,
            "removed": line.removed,
            "reason": line.decision.kept or line.error,
            "ended": iso(line.decision.records.ended),
            "bytes": line.size,
            "outputs_left": rm.outputs_elsewhere(line.decision.records) if line.removed else [],
        }
        for line in lines
    ]
    return {"dry_run": dry_run, "bytes": sum(line.size for line in lines), "runs": runs}
