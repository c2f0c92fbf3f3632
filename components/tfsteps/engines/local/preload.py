"""Forks launchers from a process that has loaded their modules, so that a step starts in milliseconds. Needs no kfp.

That process is the fork server of `multiprocessing`; it starts with the first step and ends with this process.
"""

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection

from tfsteps.systems.local import sessions

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
        sessions.kill(self._process.pid)  # the server has reaped it: its id stays taken while its session has a member
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
            sessions.kill(self._process.pid)


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
