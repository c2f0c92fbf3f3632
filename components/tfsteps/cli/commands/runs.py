"""`tfsteps runs`: the list of runs, and what commands about one run share."""

import os
import pathlib
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from tfsteps.api import run_list
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.base import RunBackend
from tfsteps.backends.open import open_backend
from tfsteps.cli.output_files import open_page, write_output
from tfsteps.cli.place_options import AllNamespaces, Context, From, ListOn, Namespace
from tfsteps.cli.run_options import OutputOption
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.outputs import (
    OutputFormat,
    print_json,
    print_table,
)
from tfsteps.console.text import clean
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.inputs import flatten, read_inputs
from tfsteps.runs.location import Location

REPORTS = 200
"""So many reports are copied to this machine, if those of the runs are stored elsewhere."""

_States = Annotated[
    list[str] | None,
    typer.Option(metavar="STATE", help=f"Only in this state: {', '.join(State)}. Repeat it for several."),
]
_Labels = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Only jobs with this label. Repeat it: all of them must match."),
]
_Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only created since then: 2h ago, or at 2026-11-21T07:30.")
]
_Metrics = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Add a column with the last value of this metric. Repeat it for several. On a cluster or platform, "
        "metrics are known of runs launched from this machine, or whose records are stored.",
    ),
]
_Sort = Annotated[
    str,
    typer.Option(
        metavar="created|duration|task|METRIC",
        help="The newest, the longest or the highest value first; tasks in alphabetical order.",
    ),
]


def runs(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Only this run; named as for `tfsteps show`.")
    ] = None,
    *,
    state: _States = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Only this task.")] = None,
    pipeline: Annotated[str | None, typer.Option(metavar="NAME", help="Only this pipeline.")] = None,
    label: _Labels = None,
    since: _Since = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first ones, as many as this.")] = None,
    metric: _Metrics = None,
    trigger: Annotated[
        bool,
        typer.Option(
            "--trigger",
            help="On a cluster: add a column with what started each run of a pipeline: manual, scheduled or unknown.",
        ),
    ] = False,
    sort: _Sort = "created",
    output: OutputOption = OutputFormat.TEXT,
    html: Annotated[
        pathlib.Path | None,
        typer.Option(metavar="FILE", help="Write a page with a table to filter and to sort, and links to the reports."),
    ] = None,
    open_browser: Annotated[
        bool,
        typer.Option(
            "--open", help="Open that page in a browser; without --html it is `runs.html` in the state folder."
        ),
    ] = False,
    on: ListOn = Location.LOCAL.value,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    from_: From = "",
) -> None:
    """List all runs, the newest first.

    Each attempt at a task has a line, and so has each pipeline of this machine, with `-` for the task; of a cluster,
    each pipeline that failed without a job.
    """
    if trigger and on != Location.KUBERNETES:
        raise CommandError("--trigger is about runs on a cluster; add --on kubernetes")
    labels = run_list.parse_labels(label or [])
    now, metrics = time.time(), list(dict.fromkeys(metric or []))
    selects = run_list.Filter(
        run_list.parse_states(state or []), task, pipeline, None if since is None else run_list.parse_since(since, now)
    )
    page = html or (store.home() / "runs.html" if open_browser else None)
    location = BackendLocation(on, context, namespace, all_namespaces, from_)
    with open_backend(location, gone=True) as backend:
        entries = run_list.entries(backend, run, labels, here=on == Location.LOCAL)
        if trigger:
            from tfsteps.backends.kubernetes.backend import cluster  # noqa: PLC0415  it imports the client of clusters
            from tfsteps.backends.kubernetes.graph import UNKNOWN, triggers  # noqa: PLC0415

            with cluster(location) as there:
                started_by = triggers(there.api, there.namespace)
            entries = [
                replace(entry, trigger=started_by.get(entry.run_object, UNKNOWN) if entry.run_object else "-")
                for entry in entries
            ]
        run_list.check_sort(sort, entries, metrics)
        chosen = run_list.ordered([entry for entry in entries if selects.matches(entry)], sort, now)[:limit]
        if page:
            _write_list(page, backend, chosen, metrics, now)
    if page and open_browser:
        open_page(page)
    if output is OutputFormat.JSON:
        print_json([run_list.summary(entry, metrics, now) for entry in chosen])
        return
    _warn_of_unknown(metrics, chosen)
    if page:
        print(page)
    elif chosen:
        header, *body = run_list.rows(chosen, metrics, now, namespaces=all_namespaces)
        print_table(tuple(header), body, spare=run_list.SPARE)
    elif entries or labels:
        typer.echo(f"No run {backend.where} matches these options; `tfsteps runs` without filters lists all.", err=True)
    else:
        typer.echo(f"There are no runs {backend.where}; `tfsteps init` writes a first job.", err=True)


def _warn_of_unknown(metrics: Sequence[str], entries: Sequence[run_list.Entry]) -> None:
    """Warn of metrics that no entry has."""
    known = run_list.metric_names(entries)
    for name in metrics:
        if entries and name not in known:
            warn(f"none of these runs has a metric {name!r}; they have {', '.join(map(clean, known)) or 'no metrics'}")


# --- the page


def _write_list(
    file: pathlib.Path, backend: RunBackend[Any], entries: Sequence[run_list.Entry], metrics: Sequence[str], now: float
) -> None:
    """Write a page of the entries, in their order. CommandError if that fails.

    Args:
        file: The page; links to reports are relative to its folder.
        backend: Where the entries are from.
        entries: What is listed; of more than `runs_page.MOST` the first.
        metrics: Names of the metrics that have a column; empty = those that most runs have.
        now: The current time, in seconds since the epoch.
    """
    from tfsteps.report import runs_page  # noqa: PLC0415  only pages need it

    jobs = [entry.job for entry in entries[: runs_page.MOST] if entry.job]
    reports = dict(zip(map(id, jobs), backend.reports(jobs, REPORTS), strict=True))
    folder = file.absolute().parent
    listed = [
        runs_page.ListedRun(
            status=entry.status,
            is_job=entry.is_job,
            seconds=entry.seconds(now),
            run_object=entry.run_object,
            report=_address(reports.get(id(entry.job)) if entry.job else _of_pipeline(entry), folder),
            options=dict(_options(backend.recorded(entry.job))) if entry.job else {},
        )
        for entry in entries
    ]
    notes = []
    if any(not run.report and run.status.state.terminal for run in listed):
        notes.append("A run without a link has no report on this machine; `tfsteps report RUN` writes or copies it.")
    write_output(file, runs_page.page(listed, metrics, now, backend.where.removeprefix("in "), notes))


def _of_pipeline(entry: run_list.Entry) -> pathlib.Path | None:
    report = store.run_report(entry.status.identity.run)
    return report if report.exists() else None


def _address(report: pathlib.Path | None, folder: pathlib.Path) -> str:
    return urllib.parse.quote(os.path.relpath(report.absolute(), folder)) if report else ""


def _options(recorded: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the options of a job's command lines by name: `args --lr`."""
    job: Mapping[str, Any] = read_inputs(recorded) or {}
    return ((path, value) for path, value in flatten(job) if " -" in path)
