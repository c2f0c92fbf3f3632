"""One step of a local pipeline run: its container's command as a process of this machine."""

import contextlib
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from tfsteps.launch import Observer
from tfsteps.records import Attempt
from tfsteps.spec import RoleName
from tfsteps.systems.base import LogLine, Replica
from tfsteps.systems.local.guard import WRAPPER, Guard

_POLL_SECONDS = 0.2
_READ = 1 << 16
_MAX_LINE = 1 << 20  # longer lines come out in pieces
_REPLICA_LINE = re.compile(rb"\[(chief|worker|ps|evaluator)-(\d+)\] (.*)", re.DOTALL)


class Process:
    """A running step. Its output is read by `lines`, its end by `wait`; a killed pipeline takes it along."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: pathlib.Path, guard: Guard) -> None:
        """Start `command` with `env` laid over this process's environment. OSError if not even that is possible."""
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])  # noqa: PTH120
        self._guard = guard
        self._popen = subprocess.Popen(
            [*WRAPPER, *command],
            stdin=guard.pipe,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **env},
            cwd=cwd,
            start_new_session=True,  # Ctrl-C is for the pipeline, which passes it on
        )

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the lines that came, several times a second, until the output or the process has ended."""
        assert self._popen.stdout
        file = self._popen.stdout.fileno()
        rest, over = b"", False
        while not over:
            ready = bool(select.select([file], [], [], _POLL_SECONDS)[0])
            data = os.read(file, _READ) if ready else b""
            over = not data and (ready or self._ended())  # a process that left the session may hold the pipe open
            *lines, rest = (rest + data).split(b"\n")
            if rest and (over or len(rest) > _MAX_LINE):
                lines, rest = [*lines, rest], b""
            yield lines

    def wait(self) -> int:
        """Return the exit code as a shell counts, 128 + n for signal n, and leave nothing of the process's session."""
        os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
        self.kill()  # before it is reaped: until then nobody else can get its id
        code = self._popen.wait()
        self._guard.forget(self._popen.pid)
        assert self._popen.stdout
        self._popen.stdout.close()
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        """Ask the process to end; a launcher ends its job then, and kills it when asked again. Signal-safe."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._popen.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End the process and everything in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)

    def _ended(self) -> bool:
        return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class Follower:
    """Shows an observer a step's replicas: their lines out of its output, their states out of the records."""

    def __init__(self, attempt: Attempt, observer: Observer | None, say: Callable[[str], None]) -> None:
        """Follow the attempt that the step is about to make, if it makes one; None = say every line as it is."""
        self._attempt = attempt
        self._observer = observer
        self._say = say
        self._seen: tuple[int, int] | None = None

    def see(self, lines: list[bytes]) -> None:
        """Pass on some lines, and what changed in the records."""
        for line in lines:
            found = _REPLICA_LINE.fullmatch(line) if self._observer else None
            if found and self._observer:
                replica = Replica(cast("RoleName", found[1].decode()), int(found[2]))
                self._observer.line(LogLine(time.time(), replica, found[3]))
            else:
                self._say(line.decode(errors="backslashreplace").rstrip("\r"))
        if self._observer and self._changed():
            self._observer.changed(self._attempt.status())

    def _changed(self) -> bool:
        try:
            stat = (self._attempt.folder / "status.json").stat()
        except FileNotFoundError:
            return False
        before, self._seen = self._seen, (stat.st_mtime_ns, stat.st_ino)
        return self._seen != before
