"""One incarnation of a replica: a process in its own session, its output as lines, its end with its resource usage."""

import contextlib
import errno
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator

import msgspec

from tfsteps.runs.events import (
    PARTIAL_SECONDS,
    LastLines,
    LogLines,
    PartialLine,
    ReplicaChanged,
    ReplicaName,
    ReplicaState,
)
from tfsteps.runs.survivors import session_members
from tfsteps.spec import format_bytes
from tfsteps.systems.local.guard import WRAPPER, Guard, kill_session

MAX_LINE = 1 << 20
"""Longer lines are split into pieces of this many bytes, to limit memory."""

UP = (ReplicaState.PENDING, ReplicaState.RUNNING)
"""The states of a replica whose process runs."""

_FIRST_BYTES = 256  # of a program; a binary one has a null byte among them
NUMBER = signal.SIGRTMAX - 4
"""The signal on which `startup/sitecustomize.py` has Python print its stacks. Programs use SIGUSR1 and SIGUSR2."""

VARIABLE = "TFSTEPS_STACK_SIGNAL"
"""Tells the number to a program."""

SECONDS = 1.0
"""Until the stacks are printed."""

STARTUP = pathlib.Path(__file__).parent / "startup"
"""Goes into PYTHONPATH."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """The command of one replica.

    Attributes:
        replica: The replica.
        argv: Program and arguments.
        env: The whole environment.
        cwd: The folder to start in.
        memory_limit: Bytes for the session's resident memory; None = no limit.
        port: Its port in TF_CONFIG's cluster; None = it is not in the cluster.
    """

    replica: ReplicaName
    argv: list[str]
    env: dict[str, str]
    cwd: pathlib.Path
    memory_limit: int | None = None
    port: int | None = None


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended: exit code as in a shell (128 + n for signal n), CPU seconds, peak resident bytes."""

    exit_code: int
    cpu_seconds: float
    memory_bytes: int


class CannotStartError(Exception):
    """A process cannot be started. The message says why, and what to do.

    Attributes:
        passing: Whether it may start later: the machine lacks memory, processes or file descriptors.
    """

    def __init__(self, command: Command, error: OSError) -> None:
        """Explain an error of the kernel."""
        self.passing = error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
        why = str(error)
        if error.errno == errno.E2BIG:
            size = sum(len(_encoded(text)) + 1 for text in [*command.argv, *command.env, *command.env.values()])
            most = format_bytes(os.sysconf("SC_ARG_MAX"))
            why = (
                f"its command, arguments and environment have {format_bytes(size)}; this machine allows {most} in all "
                "and 128 KiB for each. Write long values to a file, and pass its path"
            )
        elif error.errno == errno.ENOEXEC:
            program = error.filename
            why = (
                f"{program} is text without a first line such as `#!/usr/bin/env python3`, so that Linux cannot start "
                f"it. Add that line, or name the program that reads it: `python {program}`"
            )
        elif error.filename == command.cwd and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            why = f"its working folder {command.cwd} cannot be entered: {error.strerror}. Correct `working_dir`"
        super().__init__(f"{command.replica} could not be started: {why}")


class ReplicaProcess:
    """A process of a replica, from its start; it stays the replica's last one until the next is started.

    Attributes:
        command: The command of the replica.
        replica: The replica.
        number: Which of the replica's incarnations this is, from 0.
        pid: The process id, also that of its session and group.
        started: When it was started, in seconds since the epoch.
        peak: The most resident memory of its session that was seen, in bytes; whoever samples it sets it.
        exit_fd: Readable when the process has ended.
        out_fd: Its standard output and error.
        state: The state of the replica, as reported.
        reason: Why it ended: OOMKilled, PeerLost, ...; empty = not known.
        stop_asked: Whether the job has asked it to end.
        ended: How the process ended; None = it runs. Its output may be read later.
        output_read: Whether its whole output has been read.
        tail: Its last lines.
    """

    def __init__(self, command: Command, number: int, guard: Guard) -> None:
        """Start the process. CannotStartError if the wrapping shell cannot be started."""
        self.command, self.replica, self.number = command, command.replica, number
        guard.replace_ended()
        try:
            _require_interpreter(command)
            self._popen = subprocess.Popen(
                list(map(_encoded, [*WRAPPER, *command.argv])),
                stdin=guard.pipe,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={_encoded(name): _encoded(value) for name, value in command.env.items()},
                cwd=command.cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotStartError(command, error) from error
        self._guard = guard
        # The kernel counts the memory of this process for it, too: until it executes its program, it shares that.
        self._inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.pid = self._popen.pid
        guard.remember(self.pid)
        self.started = time.time()
        assert self._popen.stdout
        self.out_fd = self._popen.stdout.fileno()
        self.exit_fd = os.pidfd_open(self.pid)
        self.peak = 0
        self.state, self.reason = ReplicaState.PENDING, ""
        self.stop_asked = self.output_read = False
        self.ended: Ended | None = None
        self.tail = LastLines()
        self._rest = bytearray()  # the output since the last newline
        self._cut = False  # `_rest` continues a line that was split
        self._partial_due = 0.0  # when its unfinished line may be shown again, by the monotonic clock

    def changed(self, state: ReplicaState) -> ReplicaChanged:
        """Change the state, and return the event with it, and with the end of the process if it is reported now."""
        self.state = state
        place = f"pid {self.pid}" + (f" port {self.command.port}" if self.command.port else "")
        ended = None if state in (*UP, ReplicaState.RESTARTING) else self.ended
        return ReplicaChanged(
            at=time.time(),
            replica=self.replica,
            state=state,
            restarts=self.number,
            exit_code=ended.exit_code if ended else None,
            reason=self.reason,
            place=place if state in UP else "",
            cpu_seconds=ended.cpu_seconds if ended else None,
            memory_bytes=ended.memory_bytes if ended else None,
            memory_limit=self.command.memory_limit,
        )

    def printed(self, at: float, texts: list[bytes]) -> LogLines:
        """Return the event for its next lines, which are kept as its last ones."""
        self.tail.add(texts)
        return LogLines(at, self.replica, texts, incarnation=self.number, tail=self.tail)

    def read(self, at: float, data: bytes) -> Iterator[LogLines | PartialLine]:
        """Yield the lines that are complete after `data`, its next output, and at a limited rate the unfinished one.

        `data` is shorter than MAX_LINE.
        """
        searched = len(self._rest)
        self._rest += data
        if self._rest.find(b"\n", searched) >= 0 or len(self._rest) >= MAX_LINE:
            *whole, rest = bytes(self._rest).split(b"\n")
            returns = b"\r" in self._rest
            if self._cut and whole and not whole[0]:  # only the newline of the split line was missing
                del whole[0]
            pieces = [*_pieces(whole[0]), *whole[1:]] if whole else []  # the first alone has more than `data`
            *full, rest = _pieces(rest)
            if len(rest) == MAX_LINE:
                full, rest = [*full, rest], b""
            self._cut = bool(full) or (self._cut and not whole)
            self._rest = bytearray(rest)
            pieces += full
            if pieces:
                yield self.printed(at, [piece.removesuffix(b"\r") for piece in pieces] if returns else pieces)
        if self._rest and time.monotonic() >= self._partial_due:
            self._partial_due = time.monotonic() + PARTIAL_SECONDS
            yield PartialLine.of(time.time(), self.replica, bytes(self._rest))

    def poll(self) -> bool:
        """Return whether it has ended, and set `ended` then. Remaining processes of its session are killed."""
        if self.ended or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return self.ended is not None
        self.kill()  # before it is reaped: until then its id cannot be reused
        _, status, usage = os.wait4(self.pid, 0)
        code = self._popen.returncode = os.waitstatus_to_exitcode(status)
        self._guard.forget(self.pid)
        peak = usage.ru_maxrss * 1024
        self.ended = Ended(
            exit_code=code if code >= 0 else 128 - code,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            memory_bytes=max(peak if usage.ru_maxrss > self._inherited else 0, self.peak) or peak,
        )
        return True

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, though that may not have been handled: `ended` is left as it is."""
        return self.ended is not None or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def close(self) -> Iterator[LogLines]:
        """Close its pipe after its output has been read, and yield its unfinished line, if any."""
        assert self._popen.stdout
        self._popen.stdout.close()
        os.close(self.exit_fd)
        if self._rest:
            yield self.printed(time.time(), [bytes(self._rest)])

    def terminate(self) -> None:
        """Send SIGTERM to its process group; do nothing if it has ended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.ended is None:
                os.killpg(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill every process of its session, including those in other process groups; nothing if it has ended."""
        if self.ended is None:
            kill_session(self.pid)

    def over_limit(self) -> bool:
        """Return whether its session uses more resident memory than it may."""
        limit = self.command.memory_limit
        if limit is None or self.ended:
            return False
        total = 0
        for pid in session_members(self.pid):
            with contextlib.suppress(OSError):
                pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]
                total += int(pages) * os.sysconf("SC_PAGE_SIZE")
        self.peak = max(self.peak, total)
        return self.peak > limit


def _require_interpreter(command: Command) -> None:
    """Raise OSError (ENOEXEC) for a text without `#!`: a shell would run it, a container's runtime would not."""
    program = shutil.which(
        command.cwd / command.argv[0] if "/" in command.argv[0] else command.argv[0], path=command.env.get("PATH")
    )
    try:
        with open(program or "", "rb") as file:  # noqa: PTH123
            start = file.read(_FIRST_BYTES)
    except OSError:  # missing, or not readable: the wrapping shell reports it
        return
    if not start.startswith(b"#!") and b"\0" not in start:
        raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC), command.argv[0])


def _encoded(text: str) -> bytes:
    """Encode text by the locale; characters that a locale without UTF-8 lacks are encoded as UTF-8."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode()


def _pieces(line: bytes) -> list[bytes]:
    return [line[i : i + MAX_LINE] for i in range(0, max(len(line), 1), MAX_LINE)]


def request_stacks(running: Iterable[ReplicaProcess]) -> list[ReplicaProcess]:
    """Send the signal to the first process of each replica that handles it, and return the replicas that have one.

    To a process without a handler, such as another program than Python, nothing is sent: the signal would end it.
    """
    return [replica for replica in running if _ask(replica.pid)]


def _ask(leader: int) -> bool:
    for pid in sorted(session_members(leader), key=lambda pid: (pid != leader, pid)):
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
            if caught >> (NUMBER - 1) & 1:
                os.kill(pid, NUMBER)
                return True
        except (OSError, StopIteration):
            continue
    return False
