"""Forks launchers from a process that has their modules loaded, so that a step starts in milliseconds. Needs no kfp.

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

LAUNCHERS = [f"tfsteps.steps.{step}.launcher" for step in ("train", "launch", "wait", "cleanup", "evaluate_gate")]
_FORKSERVER = multiprocessing.get_context("forkserver")
_SERVER_LOST = 255  # what multiprocessing reports when the server was killed
_LOCK = threading.Lock()
"""Held where a process is started or its exit code is read: a start reads those of all others, and one read wins."""


def can_fork(command: Sequence[str]) -> bool:
    """Tell whether `command` starts one of our launchers."""
    return any(list(command[:3]) == ["python", "-m", launcher] for launcher in LAUNCHERS)


class Forked:
    """A launcher that the server forked, in a session of its own.

    Attributes:
        output: The pipe that its standard output and error go to.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: str, guard: int) -> None:
        """Start the launcher that `command` names.

        Args:
            command: One that `can_fork` accepts.
            env: Its whole environment.
            cwd: Where it starts.
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
        """Tell whether it has ended; it need not have been waited for."""
        return bool(multiprocessing.connection.wait([self._process.sentinel], 0))

    def wait(self) -> tuple[int, int]:
        """Wait for its end, kill the rest of its group, and return its id and its exit code, -n for signal n."""
        multiprocessing.connection.wait([self._process.sentinel])
        with _LOCK:
            code = self._process.exitcode
        assert self._process.pid
        assert code is not None
        # The server has reaped it. While its group has a member, no other process can get its id.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._reader.close()
        return self._process.pid, -signal.SIGKILL if code == _SERVER_LOST else code

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, SIGKILL to its whole group; does nothing once it has ended. Safe in a signal handler."""
        assert self._process.pid
        if self.ended():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._process.pid, number)
            if number == signal.SIGKILL:
                os.killpg(self._process.pid, number)


@contextlib.contextmanager
def _empty_main() -> Iterator[None]:
    """Hide the main module: multiprocessing would import it in each child, and run code without a `__main__` guard."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


def _run(command: list[str], env: Mapping[str, str], cwd: str, output: Connection, registry: Connection) -> None:
    """Turn this fork into the step."""
    os.setsid()
    with registry, output:
        os.write(registry.fileno(), f"+ {os.getpid()}\n".encode())
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the server lives as long as anybody holds its pipe
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.exit(importlib.import_module(command[2]).main(command[3:]))
