"""Names a process so that only it is ever signalled, also if other machines and containers share the run folder."""

import contextlib
import functools
import os
import pathlib
import signal
import socket
from typing import Annotated

import msgspec

from tfsteps.answer import NO, YES, Answer, known, unknown

_BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")


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
