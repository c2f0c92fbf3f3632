"""`tfsteps compare`: several runs beside each other, as text, JSON or a page."""

import pathlib
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from tfsteps.backends.base import RunBackend
from tfsteps.backends.errors import CommandError
from tfsteps.backends.find import Job, Selection
from tfsteps.backends.open import open_backend
from tfsteps.backends.place import Place
from tfsteps.cli.commands.runs import OutputOption
from tfsteps.cli.completion import complete_run
from tfsteps.cli.pages import write_page
from tfsteps.cli.place_options import AllNamespaces, Context, From, ListOn, Namespace
from tfsteps.console.outputs import Output, print_json, print_table
from tfsteps.console.text import clean, iso
from tfsteps.report import comparison
from tfsteps.report.comparison import Compared, Row
from tfsteps.report.formats import cpu_seconds, peak_memory
from tfsteps.runs.location import Location
from tfsteps.runs.lost_launcher import ABANDONED

_FEWEST = 2
_LONGEST = 48  # characters of an input in a table


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN...", help="Two runs or more; named as for `tfsteps show`.", autocompletion=complete_run
        ),
    ],
    *,
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The task to compare.", show_default="the newest that all runs have"),
    ] = None,
    output: OutputOption = Output.TEXT,
    html: Annotated[
        pathlib.Path | None, typer.Option(metavar="FILE", help="Also write a page with the curves in shared charts.")
    ] = None,
    on: ListOn = Location.LOCAL.value,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    from_: From = "",
) -> None:
    """Compare the newest attempts of runs.

    Shows states, durations, metrics and use of resources, and the inputs that differ. Metrics and curves of runs that
    were launched elsewhere are known if their records are stored.
    """
    if len(runs) < _FEWEST:
        raise CommandError(f"a comparison needs two runs or more, got {runs[0]!r}; add another, or use `tfsteps show`")
    with open_backend(Place(on, context, namespace, all_namespaces, from_), gone=True) as backend:
        compared = [_compared(backend, job, others) for job, others in _chosen(backend, runs, task)]
    if html:
        from tfsteps.report import comparison_page  # noqa: PLC0415  only pages need it

        write_page(html, comparison_page.page(compared))
    if output is Output.JSON:
        differences = comparison.differences(compared)
        notes = comparison.moved_tags(compared)
        print_json({"runs": [_summary(run) for run in compared], "differences": differences, "notes": notes})
        return
    _print(compared)
    if html:
        print(f"\npage {html}")


def _chosen(backend: RunBackend[Any], texts: Sequence[str], task: str | None) -> list[tuple[Job, list[str]]]:
    """Return for each run its newest attempt at one task, and its other tasks.

    Without `task`, it is the newest task that all runs have; if there is none, the newest of each run.
    """
    names: dict[str, str] = {}
    newest: list[dict[str, Job]] = []
    for text in texts:
        run = backend.find(text)
        if run.id in names:
            raise CommandError(f"{names[run.id]!r} and {text!r} are both run {run.id}; write different runs")
        names[run.id] = text
        newest.append({job.status.identity.task: job for job in Selection(text, task).of(run)})
    shared = [name for name in newest[0] if all(name in jobs for jobs in newest)]
    common = max(shared, key=lambda name: max(_created(jobs[name]) for jobs in newest), default=None)
    chosen = [max(jobs.values(), key=_created) if common is None else jobs[common] for jobs in newest]
    return [
        (job, [name for name in jobs if name != job.status.identity.task])
        for job, jobs in zip(chosen, newest, strict=True)
    ]


def _created(job: Job) -> float:
    return job.status.created


def _compared(backend: RunBackend[Any], job: Job, other_tasks: Sequence[str]) -> Compared:
    """Return what is known of a job: where it is, and by its record."""
    record = backend.record(job)
    status = job.status
    if record and record.status.state.terminal and record.status.reason != ABANDONED:
        status = record.status
    notes = [f"Its other tasks are not compared: {', '.join(other_tasks)}; use --task."] if other_tasks else []
    return Compared.of(status, record.attempt if record else None, notes, b"" if record else backend.recorded(job))


def _print(runs: Sequence[Compared]) -> None:
    inputs = comparison.input_rows(runs, _LONGEST)
    rows = [
        *comparison.facts(runs),
        *(Row(f"metric {row.name}", row.values) for row in comparison.metrics(runs)),
        *(Row(f"input {row.name}", row.values) for row in inputs),
    ]
    body = [[clean(row.name), *("-" if value is None else clean(value) for value in row.values)] for row in rows]
    print_table(("RUN", *(clean(run.run) for run in runs)), body)
    notes = [clean(note) for note in comparison.moved_tags(runs)]
    notes += [f"{clean(run.run)}: {clean(note)}" for run in runs for note in run.notes]
    if same := comparison.all_same(runs):
        notes.insert(0, same)
    if notes:
        print("\n" + "\n".join(notes))


def _summary(run: Compared) -> dict[str, object]:
    status, identity = run.status, run.status.identity
    return {
        "run": identity.run,
        "task": identity.task,
        "attempt": identity.attempt,
        "pipeline": identity.pipeline,
        "system": status.system,
        "namespace": status.namespace,
        "job": status.job,
        "state": status.state.value,
        "reason": status.reason,
        "message": status.message,
        "created": iso(status.created),
        "started": iso(status.started),
        "ended": iso(status.ended),
        "duration": run.seconds,
        "metrics": status.metrics,
        "replicas": run.roles,
        "images": status.images,
        "code": None if status.code is None else msgspec.to_builtins(status.code),
        "restarts": sum(replica.restarts for replica in status.replicas),
        "cpu_seconds": cpu_seconds(status.replicas),
        "peak_memory_bytes": peak_memory(status.replicas),
        "inputs": run.inputs,
        "notes": run.notes,
    }
