"""The replicas and containers that a user names: `worker`, `worker-1`, `worker-1/init-data`; and commands in them."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from tfsteps.console.errors import CommandError
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.status import ReplicaStatus, Status

_NAMED = 10


class ReplicaFilter:
    """Matches the sources of log lines: a replica's program, `worker-1`, and its other containers, `worker-1/init`."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Take names as typed; each is a role, a replica, or a container of either. None = match all sources.

        The name of a role or of a replica also matches all its containers.
        """
        self._names = [(name, *name.partition("/")[::2]) for name in dict.fromkeys(names)]

    def check(self, run: str, replicas: Iterable[str], containers: Iterable[str]) -> None:
        """Raise CommandError for a name that matches nothing; it lists what exists.

        Args:
            run: Id of the run, for the message.
            replicas: Names of all replicas, `worker-1`; none = they are not known, and all names are accepted.
            containers: The other sources, `worker-1/init-data`.
        """
        known, others = list(dict.fromkeys(replicas)), list(dict.fromkeys(containers))
        for name, replica, container in self._names if known else ():
            matching = [candidate for candidate in known if _is_of(candidate, replica)]
            if not matching:
                raise CommandError(f"run {run}: replica {name!r} is unknown; it has {some(known)}")
            beside = [source for source in others if source.partition("/")[0] in matching]
            if "/" in name and not any(source.partition("/")[2] == container for source in beside):
                problem = f"run {run}: {replica} has no container {container!r} beside its program"
                raise CommandError(f"{problem}; there is {some(beside) or 'no other container'}")

    def matches(self, source: str) -> bool:
        """Tell whether a source is selected."""
        if not self._names:
            return True
        of, _, container = source.partition("/")
        return any(_is_of(of, replica) and wanted in ("", container) for _, replica, wanted in self._names)


def _is_of(replica: str, name: str) -> bool:
    """Tell whether a replica is called `name`, or has the role `name`."""
    return name in (replica, replica.rpartition("-")[0])


def running_replica(status: Status, name: str | None) -> ReplicaStatus:
    """Return the replica that a user names; None = the one that decides how the job ends.

    Raises:
        CommandError: There is no such replica, or it does not run. The message lists those that run.
    """
    replica = named_replica(status, name)
    if replica.state is not ReplicaState.RUNNING:
        running = [other.name for other in status.replicas if other.state is ReplicaState.RUNNING]
        who = f"run {status.identity.run}: {replica.name} of {status.identity.task} is {replica.state}"
        raise CommandError(f"{who}; running: {some(running) or 'none'}")
    return replica


def named_replica(status: Status, name: str | None) -> ReplicaStatus:
    """Return the replica that a user names; None = the one that decides how the job ends.

    A role names its only replica. CommandError if there is no such replica; it lists those that exist.
    """
    name = name or status.decisive_replica
    matching = [replica for replica in status.replicas if replica.name == name]
    matching = matching or [replica for replica in status.replicas if replica.role == name]
    if len(matching) == 1:
        return matching[0]
    who = f"run {status.identity.run}: replica {name!r} is {'ambiguous' if matching else 'unknown'}"
    names = [replica.name for replica in matching or status.replicas]
    raise CommandError(f"{who}; {'choose one of' if matching else 'it has'} {some(names) or 'no replicas'}")


def some(names: Sequence[str]) -> str:
    """Return names with commas between; of many, the first and the last."""
    return ", ".join(names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"... {names[-1]}"])


def replace_process(argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str = "") -> NoReturn:
    """Run `argv` in place of this process.

    Args:
        argv: Program, which is looked up in PATH of `env`, and arguments.
        env: The whole environment; None = that of this process.
        cwd: Folder to start in; empty = the current one.

    Raises:
        CommandError: The program or the folder cannot be used.
    """
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    try:
        if cwd:
            os.chdir(cwd)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], [*argv], os.environ if env is None else env)  # noqa: S606  the user's own command
    except (OSError, ValueError) as error:  # ValueError: a null byte
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"{argv[0]!r} cannot be started: {reason}; correct the command after `--`") from error
