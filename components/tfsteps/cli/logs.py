"""`tfsteps logs`: the saved log lines, of a running job too."""

import collections
import contextlib
import datetime as dt
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Annotated

import typer

from tfsteps.cli.cluster_log import ClusterLog
from tfsteps.cli.errors import CommandError
from tfsteps.cli.find import find_attempts, find_run, read
from tfsteps.cli.runs import AttemptNumber, RunId, Task
from tfsteps.cli.text import clean
from tfsteps.cli.watch import POLL_SECONDS
from tfsteps.cli.where import AllNamespaces, Context, Namespace, On, OnOption, Place, cluster, find_jobs
from tfsteps.records import Attempt, read_log
from tfsteps.spec import ROLES


def logs(
    run: RunId,
    *,
    task: Task = None,
    attempt: AttemptNumber = None,
    role: Annotated[str | None, typer.Option(metavar="|".join(ROLES), help="Only the replicas of this role.")] = None,
    index: Annotated[int | None, typer.Option(min=0, help="Only this one of them, from 0.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its local time.")] = False,
    tail: Annotated[int | None, typer.Option(min=0, help="Begin with the last lines, as many as this.")] = None,
    on: OnOption = On.LOCAL,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Print the log of a run.

    Lines come as `[worker-1] text`; with the task before the replica if there are several.
    """
    wanted = _Wanted(role, index)
    place = Place(on, context, namespace, all_namespaces)
    if on is On.KUBERNETES:
        with cluster(place) as there:
            theirs = ClusterLog(there, find_jobs(there, place, run, task, attempt), wanted, timestamps=timestamps)
            theirs.print(tail)
            if follow:
                theirs.follow(task, attempt)
        return
    name = find_run(run)
    find_attempts(name, task, attempt)  # says what is wrong before anything is printed
    with _Log(lambda: find_attempts(name, task, attempt), wanted, timestamps=timestamps) as log:
        out = sys.stdout.buffer
        for line in collections.deque(log.lines(), maxlen=tail) if tail is not None else log.lines():
            out.write(line)
        out.flush()
        while follow and log.running:
            time.sleep(POLL_SECONDS)
            for line in log.lines():
                out.write(line)
            out.flush()


class _Wanted:
    """Tells which replicas' lines are wanted."""

    def __init__(self, role: str | None, index: int | None) -> None:
        if role is not None and role not in ROLES:
            raise CommandError(f"--role {role!r} is unknown: use one of {', '.join(ROLES)}")
        if index is not None and role is None:
            raise CommandError(f"--index {index} needs the role that it counts in; add --role worker, for example")
        self._name = f"{role}-{index}" if index is not None else None
        self._begin = f"{role}-" if role else ""

    def __call__(self, replica: str) -> bool:
        return replica == self._name if self._name else replica.startswith(self._begin)


class _Log(contextlib.ExitStack):
    """The log lines of some attempts, each printed once, also when files grow and new attempts come.

    Attributes:
        running: Whether one of the attempts was running before its lines were read last: there may be more.
    """

    def __init__(
        self, find: Callable[[], Sequence[Attempt]], wanted: Callable[[str], bool], *, timestamps: bool
    ) -> None:
        super().__init__()
        self.running = True
        self._find = find
        self._wanted = wanted
        self._timestamps = timestamps
        self._files: dict[pathlib.Path, tuple[str, IO[bytes]]] = {}

    def lines(self) -> Iterator[bytes]:
        """Yield what is new, ready to print."""
        found = self._find()
        self.running = any([attempt.alive() for attempt in found])  # noqa: C419  all, and before they are read
        self._open(attempt for attempt in found if attempt.folder not in self._files)
        for task, file in self._files.values():
            prefix = f"{task}/" if len(self._files) > 1 else ""
            for stamp, replica, text in read_log(file):
                if self._wanted(replica):
                    at = f"{_local(stamp)} " if self._timestamps else ""
                    yield f"{at}[{prefix}{replica}] ".encode() + text + b"\n"

    def _open(self, attempts: Iterable[Attempt]) -> None:
        begun = [(attempt, status) for attempt in attempts if attempt.log.exists() and (status := read(attempt))]
        for attempt, status in sorted(begun, key=lambda pair: pair[1].created):
            self._files[attempt.folder] = (clean(status.identity.task), self.enter_context(attempt.log.open("rb")))


def _local(stamp: str) -> str:
    return dt.datetime.fromisoformat(stamp).astimezone().isoformat(timespec="milliseconds")
