"""`tfsteps logs`: the saved log lines, of a running job too."""

import collections
import contextlib
import datetime as dt
import functools
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Annotated

import typer

from tfsteps.cli.backends.base import backend, find_jobs, meant
from tfsteps.cli.backends.find import find_attempts, find_run, read
from tfsteps.cli.backends.place import AllNamespaces, Context, Namespace, On, OnOption, located
from tfsteps.cli.commands.runs import AttemptNumber, RunId, Task
from tfsteps.cli.errors import CommandError
from tfsteps.cli.watch import POLL_SECONDS
from tfsteps.console.text import clean, printable
from tfsteps.runs.log_file import read_log
from tfsteps.runs.status import Status
from tfsteps.runs.store import Attempt
from tfsteps.spec import ROLES

_NAMED = 10


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
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Print the log of a run.

    Lines come as `[worker-1] text`, and as `[worker-1/name] text` from an init container or a sidecar; with the task
    before the replica if there are several.
    """
    wanted = _Wanted(role, index)
    place = located(run, task, on, context, namespace, everywhere=all_namespaces)
    if place.on is not On.LOCAL:
        with backend(place) as there:
            jobs = find_jobs(there, place, run, task, attempt)
            wanted.check(job.status for job in jobs)
            more = functools.partial(meant, task=task, attempt=attempt) if follow else None
            there.print_log(jobs, wanted, timestamps=timestamps, tail=tail, follow=more)
        return
    name = find_run(run)
    found = find_attempts(name, task, attempt)  # says what is wrong before anything is printed
    wanted.check(status for each in found if (status := read(each)))
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
    """Tells whose lines are wanted: those of a replica with those of its other containers, `worker-1/init-data`."""

    def __init__(self, role: str | None, index: int | None) -> None:
        if role is not None and role not in ROLES:
            raise CommandError(f"--role {role!r} is unknown: use one of {', '.join(ROLES)}")
        if index is not None and role is None:
            raise CommandError(f"--index {index} needs the role that it counts in; add --role worker, for example")
        self._name = f"{role}-{index}" if index is not None else None
        self._begin = f"{role}-" if role else ""

    def check(self, statuses: Iterable[Status]) -> None:
        """Raise CommandError if none of the jobs has such a replica; names those that there are."""
        there = [replica.name for status in statuses for replica in status.replicas]
        if there and not any(map(self, there)):
            asked = f"--role {self._begin[:-1]}" + (f" --index {self._name.rpartition('-')[2]}" if self._name else "")
            raise CommandError(f"{asked}: there is no such replica; the run has {_some(list(dict.fromkeys(there)))}")

    def __call__(self, source: str) -> bool:
        return source.partition("/")[0] == self._name if self._name else source.startswith(self._begin)


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
            for stamp, source, text in read_log(file):
                if self._wanted(source):
                    at = f"{_local(stamp)} " if self._timestamps else ""
                    yield f"{at}[{prefix}{source}] ".encode() + printable(text) + b"\n"

    def _open(self, attempts: Iterable[Attempt]) -> None:
        begun = [(attempt, status) for attempt in attempts if attempt.log.exists() and (status := read(attempt))]
        for attempt, status in sorted(begun, key=lambda pair: pair[1].created):
            self._files[attempt.folder] = (clean(status.identity.task), self.enter_context(attempt.log.open("rb")))


def _local(stamp: str) -> str:
    return dt.datetime.fromisoformat(stamp).astimezone().isoformat(timespec="milliseconds")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"... {names[-1]}"])
