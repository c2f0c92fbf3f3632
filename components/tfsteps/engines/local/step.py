"""One step of a local pipeline run: the command of its container as a process."""

import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from tfsteps.engines.local.preload import Forked, can_fork
from tfsteps.systems.local import sessions
from tfsteps.systems.local.guard import WRAPPER, Guard

_POLL_SECONDS = 0.2
_READ = 1 << 16
_MAX_LINE = 1 << 20  # longer lines are split


class Child(Protocol):
    """The process of a step, forked or spawned.

    Attributes:
        output: The pipe of its standard output and error.
    """

    output: int

    def ended(self) -> bool:
        """Return whether it has ended, without reaping it."""

    def wait(self) -> tuple[int, int]:
        """Wait for its end, kill the rest of its session, and return its process id and exit code, -n for signal n."""

    def send(self, number: signal.Signals) -> None:
        """Send a signal, SIGKILL to its whole session; do nothing if it has ended. Safe in a signal handler."""


class Spawned:
    """A child process that executes another program."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: pathlib.Path, guard: int) -> None:
        """Start `command`. OSError if it cannot be started."""
        self._popen = subprocess.Popen(
            [*WRAPPER, *command],
            stdin=guard,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,  # Ctrl-C signals only the pipeline, which forwards it
        )
        assert self._popen.stdout
        self.output = self._popen.stdout.fileno()

    def ended(self) -> bool:
        return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self) -> tuple[int, int]:
        os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
        self.send(signal.SIGKILL)  # before it is reaped: until then its id cannot be reused
        assert self._popen.stdout
        self._popen.stdout.close()
        return self._popen.pid, self._popen.wait()

    def send(self, number: signal.Signals) -> None:
        if number == signal.SIGKILL:
            sessions.kill(self._popen.pid)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._popen.pid, number)


class StepProcess:
    """A running step. `lines` reads its output, `wait` its end; it is killed if its pipeline is killed."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: pathlib.Path, guard: Guard) -> None:
        """Start `command` with this process's environment, updated by `env`. OSError if it cannot be started."""
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])  # noqa: PTH120
        whole = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **env}
        self._guard = guard
        self._child: Child = (
            Forked(command, whole, os.fspath(cwd), guard.pipe)
            if can_fork(command)
            else Spawned(command, whole, cwd, guard.pipe)
        )

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the new lines several times a second, until the output or the process has ended."""
        file = self._child.output
        rest, over = b"", False
        while not over:
            ready = bool(select.select([file], [], [], _POLL_SECONDS)[0])
            data = os.read(file, _READ) if ready else b""
            over = not data and (ready or self._child.ended())  # a process that left the session may hold the pipe open
            *lines, rest = (rest + data).split(b"\n")
            if rest and (over or len(rest) > _MAX_LINE):
                lines, rest = [*lines, rest], b""
            yield lines

    def wait(self) -> int:
        """Wait for the end, kill the rest of the session, and return the exit code, 128 + n for signal n."""
        pid, code = self._child.wait()
        self._guard.forget(pid)
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        """Send SIGTERM; a launcher then stops its job, and kills it at the second SIGTERM. Safe in a signal handler."""
        self._child.send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its session."""
        self._child.send(signal.SIGKILL)
