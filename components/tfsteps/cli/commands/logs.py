"""`tfsteps logs`: the log lines of a run, also while it runs."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from tfsteps.cli.backends.base import LogOptions
from tfsteps.cli.backends.find import Selection
from tfsteps.cli.backends.place import AllNamespaces, Context, Namespace, OnOption, located, open_backend
from tfsteps.cli.commands.runs import AttemptNumber, RunId, Task
from tfsteps.cli.errors import CommandError
from tfsteps.runs.status import Status
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
    replicas = ReplicaFilter(role, index)
    selection = Selection(run, task, attempt)
    options = LogOptions(replicas.matches, timestamps, tail, follow)
    with open_backend(located(selection, on, context, namespace, everywhere=all_namespaces)) as backend:
        jobs = selection.of(backend.find(run))
        replicas.check(job.status for job in jobs)
        backend.print_log(jobs, selection, options)


class ReplicaFilter:
    """Matches the log sources of a replica: its program, `worker-1`, and other containers, `worker-1/init-data`."""

    def __init__(self, role: str | None, index: int | None) -> None:
        """Match the replica `index` of a role; None = all of them. CommandError for an unknown role."""
        if role is not None and role not in ROLES:
            raise CommandError(f"--role {role!r} is unknown: use one of {', '.join(ROLES)}")
        if index is not None and role is None:
            raise CommandError(f"--index {index} needs the role that it counts in; add --role worker, for example")
        self._name = f"{role}-{index}" if index is not None else None
        self._prefix = f"{role}-" if role else ""

    def check(self, statuses: Iterable[Status]) -> None:
        """Raise CommandError if none of the jobs has such a replica; it names those that exist."""
        names = [replica.name for status in statuses for replica in status.replicas]
        if names and not any(map(self.matches, names)):
            option = f"--role {self._prefix[:-1]}" + (f" --index {self._name.rpartition('-')[2]}" if self._name else "")
            raise CommandError(f"{option}: there is no such replica; the run has {_some(list(dict.fromkeys(names)))}")

    def matches(self, source: str) -> bool:
        """Tell whether a source is selected."""
        return source.partition("/")[0] == self._name if self._name else source.startswith(self._prefix)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"... {names[-1]}"])
