"""`tfsteps compare`: several runs beside each other, as text, JSON or a page."""

import pathlib
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tfsteps.api.queries import compared_runs
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.open import open_backend
from tfsteps.cli.completion import complete_run
from tfsteps.cli.output_files import write_output
from tfsteps.cli.place_options import AllNamespaces, Context, From, ListOn, Namespace
from tfsteps.cli.run_options import OutputOption
from tfsteps.console.outputs import OutputFormat, print_json, print_table
from tfsteps.console.text import clean, iso
from tfsteps.report import comparison
from tfsteps.report.comparison import Compared
from tfsteps.report.formats import cpu_seconds, peak_memory
from tfsteps.runs.location import Location


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
    output: OutputOption = OutputFormat.TEXT,
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
    with open_backend(BackendLocation(on, context, namespace, all_namespaces, from_), gone=True) as backend:
        compared = compared_runs(backend, runs, task)
    if html:
        from tfsteps.report import comparison_page  # noqa: PLC0415  only pages need it

        write_output(html, comparison_page.page(compared))
    if output is OutputFormat.JSON:
        differences = comparison.differences(compared)
        notes = comparison.moved_tags(compared)
        print_json({"runs": [_summary(run) for run in compared], "differences": differences, "notes": notes})
        return
    _print(compared)
    if html:
        print(f"\npage {html}")


def _print(runs: Sequence[Compared]) -> None:
    rows = comparison.table_rows(runs)
    body = [[clean(row.name), *("-" if value is None else clean(value) for value in row.values)] for row in rows]
    print_table(("RUN", *(clean(run.run) for run in runs)), body)
    notes = [clean(note) for note in comparison.notes(runs)]
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
