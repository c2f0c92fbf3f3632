"""`tfsteps show`: what a run consists of, and its status; with `--watch` again and again."""

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import typer

from tfsteps.api.queries import run_graph
from tfsteps.backends.base import RunBackend
from tfsteps.backends.find import FoundRun, Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.place_options import AllNamespaces, Context, From, Namespace, OnOption
from tfsteps.cli.run_options import AttemptNumber, OutputOption, RunId, Task
from tfsteps.cli.watch import observer
from tfsteps.console import run_tree
from tfsteps.console.errors import CommandError
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
from tfsteps.kube.errors import ApiError
from tfsteps.runs.events import LogLines, PartialLine
from tfsteps.runs.graph import Surroundings, graph
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Status

if TYPE_CHECKING:
    from rich.text import Text


_READ_SECONDS = 5.0


class LiveGraph:
    """An observer that keeps the graph of a run, and draws it; it reads in a thread as long as its `with` block lasts.

    The thread starts when the tree is drawn first: without a terminal nothing is read.
    """

    def __init__(self, backend: RunBackend[Any], target: FoundRun[Any], selection: Selection) -> None:
        """Begin with the jobs of the run as they were found; nothing is read yet."""
        self._backend, self._run, self._selection = backend, target.id, selection
        self._jobs = [job for job in target.jobs if selection.includes(job)]
        self._statuses: dict[Identity, Status] = {job.status.identity: job.status for job in self._jobs}
        self._around = Surroundings()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Return the tree."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop reading."""
        self._closed.set()

    def changed(self, status: Status) -> None:
        """Keep the status of an attempt."""
        self._statuses = {**self._statuses, status.identity: status}  # replaced as a whole: another thread draws it

    def drawn(self, width: int, height: int) -> list["Text"]:
        """Return the tree without replicas, which have tables; empty if it does not fit into `height` lines."""
        from tfsteps.console.tables import tree_line  # noqa: PLC0415  rich is for terminals only

        if self._thread is None:
            self._thread = threading.Thread(target=self._read_until_closed, name="graph", daemon=True)
            self._thread.start()
        root = graph(self._run, self._statuses.values(), self._around)
        lines = [tree_line(line) for line in run_tree.tree(root, width=width, replicas=False)]
        return lines if len(lines) <= height else []

    def lines(self, lines: LogLines) -> None:
        """Ignore log lines."""

    def partial(self, line: PartialLine) -> None:
        """Ignore unfinished lines."""

    def _read_until_closed(self) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(ApiError, CommandError, OSError):  # the next reading may succeed
                self._around = self._backend.surroundings(self._run, self._jobs)
                jobs = self._backend.jobs(self._run)
                self._jobs = [job for job in jobs if self._selection.includes(job)]
            self._closed.wait(_READ_SECONDS)


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
    here = selection.whole and target.pipeline and not target.pipeline.run_object
    if not (follow and (jobs or here)):
        return [backend.explain(job) for job in jobs]
    if output is OutputFormat.JSON:
        return backend.follow(jobs, selection, [])
    with LiveGraph(backend, target, selection) as tree, observer(final=False, above=tree.drawn, discards=False) as view:
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
