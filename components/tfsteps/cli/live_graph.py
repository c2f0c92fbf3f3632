"""The tree of a run that is followed: its jobs by what is reported of them, the rest read again and again."""

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Self

from tfsteps.backends.base import RunBackend
from tfsteps.backends.find import FoundRun, Selection
from tfsteps.console import run_tree
from tfsteps.console.errors import CommandError
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
