"""The process that a record names, and the lock of a run folder: which process holds it, and whether it still does.

The kernel releases a lock when its process ends. On a disk of this machine, and among processes of one machine, a free
lock therefore means that the process has ended. A file server may hide the locks of other machines from this one: the
lock file says which process took it, so that a lock that seems free there is not mistaken for an ended process.
"""

import contextlib
import fcntl
import functools
import os
import pathlib
import signal
import socket
import time
from typing import Annotated, Self

import msgspec

from tfsteps import typed_json
from tfsteps.answer import NO, YES, Answer, known, unknown
from tfsteps.json_errors import NOT_READABLE

_BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")

DISKS = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "ramfs", "overlay"}
"""File systems that one machine mounts at a time: all who see a file see its locks."""

_NAME = "lock"
_RELEASED = b"null"
_TRIES = 5


class ProcessRef(msgspec.Struct, frozen=True, kw_only=True):
    """A process: a process id means something only in its PID namespace, and as long as that process runs.

    Attributes:
        host: Host name, for people.
        boot: Id of the boot of its machine; empty = not known.
        pid_namespace: Inode of its PID namespace, which containers have of their own.
        pid: Process id in that namespace.
        started: When it started, in clock ticks since the boot.
    """

    host: str
    boot: str
    pid_namespace: int
    pid: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]  # -1 would mean every process
    started: int

    @classmethod
    def current(cls) -> "ProcessRef":
        """Return this process. OSError if /proc cannot be read."""
        pid = os.getpid()
        return cls(
            host=socket.gethostname(), boot=_boot(), pid_namespace=_pid_namespace(), pid=pid, started=_started(pid)
        )

    @property
    def on_this_machine(self) -> bool:
        """Whether it certainly runs, or ran, on this machine since its last boot."""
        return bool(self.boot) and self.boot == _boot()

    @property
    def of_earlier_boot(self) -> bool:
        """Whether the machine that it ran on was another one, or has certainly booted since."""
        return bool(self.boot and _boot()) and self.boot != _boot()

    @property
    def elsewhere(self) -> str:
        """Where it lives if its process id means nothing here, such as `on machine gpu-2`; empty = it lives here."""
        if not self.on_this_machine:
            again = ", or on this one before its last boot" if self.host == socket.gethostname() else ""
            return f"on machine {self.host}{again}"
        return "" if self.pid_namespace == _pid_namespace() else f"in another container of this machine, {self.host}"

    @property
    def name(self) -> str:
        """`pid 4711`, and where it lives unless that is here."""
        return " ".join(filter(None, [f"pid {self.pid}", self.elsewhere]))

    def alive(self) -> Answer:
        """Return whether it runs."""
        if self.elsewhere:
            return unknown(f"{self.name} cannot be seen from here")
        try:
            return known(_started(self.pid) == self.started)
        except (FileNotFoundError, ProcessLookupError):
            return NO
        except OSError as error:
            return unknown(error)

    def send(self, number: signal.Signals) -> Answer:
        """Send a signal to this process and to no other: YES = it was sent, NO = the process has ended."""
        if self.elsewhere:
            return unknown(f"{self.name} cannot be signalled from here")
        try:
            process = _pidfd(self.pid)
        except ProcessLookupError:
            return NO
        try:
            if _started(self.pid) != self.started:
                return NO
            if process is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(process, number)
        except (FileNotFoundError, ProcessLookupError):
            return NO
        except PermissionError:
            return unknown(f"{self.name} belongs to another user")
        finally:
            if process is not None:
                os.close(process)
        return YES


@functools.cache
def _boot() -> str:
    with contextlib.suppress(OSError):
        return _BOOT.read_text().strip()
    return ""


def _pid_namespace() -> int:
    return pathlib.Path("/proc/self/ns/pid").stat().st_ino


def _pidfd(pid: int) -> int | None:
    """Return a descriptor of a process, which names no other one that gets its id later.

    None if there are none here: Python may be built for older kernels, and a container may forbid the call.
    ProcessLookupError if there is no such process.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


def _started(pid: int) -> int:
    """Return when a process started, in clock ticks since the boot. OSError if it has ended or is hidden."""
    after_name = pathlib.Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2]
    return int(after_name.split()[19])


class Lock:
    """A lock that this process holds until `close`, at most until it ends."""

    def __init__(self, folder: pathlib.Path, *, wait: bool = False) -> None:
        """Lock `folder`, which exists.

        Raises:
            BlockingIOError: Another process holds the lock, and `wait` is false.
            OSError: The lock file cannot be written.
        """
        self._file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for tries_left in range(_TRIES, -1, -1):
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                    break
                except BlockingIOError:  # perhaps only `held` of another process, which locks for a moment
                    if not tries_left:
                        raise
                    time.sleep(0.02)
            _write(self._file, msgspec.json.encode(ProcessRef.current()))
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock, and record that; do nothing the second time."""
        if self._file >= 0:
            file, self._file = self._file, -1
            with contextlib.suppress(OSError):  # a full disk: the lock file keeps the name of this process
                _write(file, _RELEASED)
            os.close(file)


def held(folder: pathlib.Path) -> Answer:
    """Return whether a process holds the lock of a folder."""
    try:
        with (folder / _NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            content = file.read()
    except BlockingIOError:
        return YES
    except FileNotFoundError:
        return NO
    holder = _parsed(content)
    if content == _RELEASED or (holder and holder.on_this_machine) or _file_system(folder) in DISKS:
        return NO
    if holder is None:
        return unknown(f"{folder / _NAME} does not say on which machine its process ran, and this machine may not know")
    return unknown(f"{holder.name} may still run, and this machine cannot know")


def holder(folder: pathlib.Path) -> ProcessRef | None:
    """Return the process that has taken the lock of a folder; None = an older version took it, or nobody holds it."""
    try:
        return _parsed((folder / _NAME).read_bytes())
    except OSError:
        return None


def released(folder: pathlib.Path) -> bool:
    """Tell whether the last process that held the lock has certainly released it, and did not just end."""
    try:
        return (folder / _NAME).read_bytes() == _RELEASED
    except OSError:
        return False


def _write(file: int, content: bytes) -> None:
    os.pwrite(file, content, 0)
    os.ftruncate(file, len(content))


def _parsed(content: bytes) -> ProcessRef | None:
    try:
        return typed_json.decode(content, ProcessRef | None)
    except NOT_READABLE:
        return None


def _file_system(folder: pathlib.Path) -> str:
    """Return the type of the file system of a folder; empty = not known."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[2] == number:
            return fields[fields.index("-") + 1]
    return ""
