"""`tfsteps show`: the graph of a run, and the status of its attempts."""

import time
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from tfsteps.api.queries import run_graph
from tfsteps.backends.base import RunBackend
from tfsteps.backends.find import FoundRun, Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.commands.runs import AttemptNumber, OutputOption, RunId, Task
from tfsteps.cli.live_graph import LiveGraph
from tfsteps.cli.place_options import AllNamespaces, Context, From, Namespace, OnOption
from tfsteps.cli.watch import observer
from tfsteps.console.outputs import (
    REPLICA_COLUMNS,
    OutputFormat,
    graph_data,
    headline,
    pipeline_verdict,
    plain,
    print_json,
    print_table,
    print_tree,
    replica_row,
    results,
    with_iso_times,
)
from tfsteps.console.text import clean
from tfsteps.runs.status import Status


def show(
    run: RunId,
    *,
    task: Task = None,
    attempt: AttemptNumber = None,
    output: OutputOption = OutputFormat.TEXT,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show it live until it has ended.")] = False,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    from_: From = "",
) -> None:
    """Show what a run consists of, and its status.

    Its pipeline with the other steps, its tasks, launchers, jobs and replicas as a tree; then of each task the
    replicas, where its results are, and why it failed if it did.
    """
    selection = Selection(run, task, attempt)
    with open_backend(
        located(selection, on, context, namespace, everywhere=all_namespaces, records=from_), gone=True
    ) as backend:
        target = backend.find(run)
        pipeline = target.pipeline if selection.whole else None
        jobs = selection.choose(target.jobs) if pipeline else selection.parts(target)[0]
        statuses = _statuses(backend, target, jobs, selection, output, follow=follow)
        root, notes = run_graph(backend, target, selection, statuses, again=follow)
        if pipeline and follow:
            pipeline = backend.find(target.id).pipeline
    statuses.sort(key=lambda status: status.created)
    if output is OutputFormat.JSON:
        data = {"attempts": [plain(status) for status in statuses], "graph": graph_data(root), "notes": notes}
        print_json({**(with_iso_times(msgspec.to_builtins(pipeline)) if pipeline else {"run": target.id}), **data})
        return
    print_tree(target.id, root)
    for note in notes:
        print(f"{'note':<12} {clean(note)}")
    for status in statuses:
        print()
        print_status(status)
    if pipeline:
        print(f"\n{pipeline_verdict(pipeline)}")


def _statuses(
    backend: RunBackend[Any],
    target: FoundRun[Any],
    jobs: Sequence[Any],
    selection: Selection,
    output: OutputFormat,
    *,
    follow: bool,
) -> list[Status]:
    """Return the statuses of the selected attempts, explained; with `follow` once all and their pipeline have ended."""
    here = selection.whole and target.pipeline and not target.pipeline.workflow
    if not (follow and (jobs or here)):
        return [backend.explain(job) for job in jobs]
    if output is OutputFormat.JSON:
        return backend.follow(jobs, selection, [])
    with LiveGraph(backend, target, selection) as tree, observer(final=False, above=tree.drawn) as view:
        return backend.follow(jobs, selection, [tree, view])


def print_status(status: Status) -> None:
    """Print the status of an attempt: its replicas, warnings, results, and why it failed."""
    print("\n".join(headline(status)[1:]) + "\n")  # the run is that of the tree
    now = time.time()
    print_table(REPLICA_COLUMNS, [replica_row(replica, now) for replica in status.replicas], spare=("PLACE", "CPU"))
    print()
    for warning in status.warnings:
        print(f"{'warning':<12} {clean(warning)}")
    print("\n".join(results(status)))
