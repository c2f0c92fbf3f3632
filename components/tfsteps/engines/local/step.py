"""One step of a local pipeline run: the command of its container as a process. Needs no kfp.

Launchers are forked from a process that has loaded their modules, so that they start in milliseconds: the fork server
of `multiprocessing`, which starts with the first step and ends with this process.
"""

import contextlib
import importlib
import multiprocessing
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection

from tfsteps.systems.local.guard import WRAPPER, Guard, kill_session

_POLL_SECONDS = 0.2
_READ = 1 << 16
_MAX_LINE = 1 << 20  # longer lines are split
_STEPS = ("train", "launch", "wait", "cleanup", "evaluate_gate", "tensorboard")
LAUNCHERS = [f"tfsteps.steps.{step}.launcher" for step in _STEPS]
_FORKSERVER = multiprocessing.get_context("forkserver")
_SERVER_LOST = 255  # exit code that multiprocessing reports if the server was killed
_LOCK = threading.Lock()
"""Guards process starts and reads of exit codes: a start also reads the exit codes of all others, each only once."""


def can_fork(command: Sequence[str]) -> bool:
    """Return whether `command` starts a launcher of tfsteps."""
    return any(list(command[:3]) == ["python", "-m", launcher] for launcher in LAUNCHERS)


class Forked:
    """A launcher forked by the server, in its own session.

    Attributes:
        output: The pipe of its standard output and error.
        pid: Its process id, also that of its session.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: str, guard: int) -> None:
        """Start the launcher that `command` names.

        Args:
            command: A command for which `can_fork` is True.
            env: The whole environment.
            cwd: The working directory.
            guard: The guard's pipe.

        Raises:
            OSError: The server cannot be reached.
        """
        self._reader, writer = _FORKSERVER.Pipe(duplex=False)
        self.output = self._reader.fileno()
        with writer, Connection(os.dup(guard), readable=False) as registry:
            self._process = _FORKSERVER.Process(target=_run, args=(list(command), dict(env), cwd, writer, registry))
            with _LOCK, _empty_main():
                _FORKSERVER.set_forkserver_preload(["tfsteps.engines.local.preloaded"])
                self._process.start()
        assert self._process.pid
        self.pid = self._process.pid

    def ended(self) -> bool:
        """Return whether it has ended, without reaping it."""
        return bool(multiprocessing.connection.wait([self._process.sentinel], 0))

    def wait(self) -> tuple[int, int]:
        """Wait for its end, kill the rest of its session, and return its process id and exit code, -n for signal n."""
        multiprocessing.connection.wait([self._process.sentinel])
        with _LOCK:
            code = self._process.exitcode
        assert self._process.pid
        assert code is not None
        kill_session(self._process.pid)  # the server has reaped it: its id stays taken while its session has a member
        self._reader.close()
        return self._process.pid, -signal.SIGKILL if code == _SERVER_LOST else code

    def send(self, number: signal.Signals) -> None:
        """Send a signal, SIGKILL to its whole session; do nothing if it has ended. Safe in a signal handler."""
        assert self._process.pid
        if self.ended():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._process.pid, number)
        if number == signal.SIGKILL:
            kill_session(self._process.pid)


@contextlib.contextmanager
def _empty_main() -> Iterator[None]:
    """Hide the main module: multiprocessing would import it in each child and run code without a `__main__` guard."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


def _run(command: list[str], env: Mapping[str, str], cwd: str, output: Connection, registry: Connection) -> None:
    """Run the step in this forked process."""
    os.setsid()
    with registry, output:
        os.write(registry.fileno(), f"+ {os.getpid()}\n".encode())
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the server runs as long as a process holds its pipe open
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.exit(importlib.import_module(command[2]).main(command[3:]))


class Spawned:
    """A child process that executes another program; attributes and methods are those of `Forked`."""

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
        self.output, self.pid = self._popen.stdout.fileno(), self._popen.pid

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
            kill_session(self._popen.pid)
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
        guard.replace_ended()
        self._child = (
            Forked(command, whole, os.fspath(cwd), guard.pipe)
            if can_fork(command)
            else Spawned(command, whole, cwd, guard.pipe)
        )
        guard.remember(self._child.pid)

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the new lines several times a second, until the output or the process has ended."""
        file = self._child.output
        rest, over = b"", False
        while not over:
            self._guard.replace_ended()
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
