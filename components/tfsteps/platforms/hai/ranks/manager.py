"""What a rank and HAI tell each other: reports to the task's manager, and its notice before a suspension."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import pickle
import socket
import threading
import time
from typing import Any

_PORT = 7000
_ANSWER_SECONDS = 2.0
_PAUSE_SECONDS = 0.5
_PROTOCOL = 2  # of pickle: the manager's Python may be older than that of the ranks
_KEY = 7123378543 & 0xFFFFFFFF  # key of the shared memory with the flag of rank 0; keys have 32 bits


class Manager:
    """Delivers reports in its own thread, and retries until the manager answers, because it starts after the ranks."""

    def __init__(self) -> None:
        """Start without reports; the first report starts the thread."""
        self._pending: dict[str, dict[str, Any]] = {}  # by source, in order
        self._changed = threading.Condition()
        self._started = False

    def report(self, source: str, **fields: Any) -> None:
        """Deliver a report as soon as possible; it replaces an undelivered report of the same source."""
        with self._changed:
            self._pending[source] = {"source": source, **fields}
            self._changed.notify_all()
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` until all reports are delivered; return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending)
                reports = list(self._pending.values())
            for report in reports:
                if not _answered(report):
                    time.sleep(_PAUSE_SECONDS)
                    break
                with self._changed:
                    if self._pending[report["source"]] is report:
                        del self._pending[report["source"]]
                    self._changed.notify_all()


def _answered(report: dict[str, Any]) -> bool:
    """Send a report; return whether the manager has answered. The content of the answer is not used."""
    user, task = os.environ.get("MARSV2_USER", "").replace("_", "-"), os.environ.get("MARSV2_TASK_ID", "")
    body = pickle.dumps(report, _PROTOCOL)
    try:
        with socket.create_connection((f"{user}-{task}-manager-0", _PORT), _ANSWER_SECONDS) as connection:
            connection.sendall(str(len(body) + 8).rjust(8).encode() + body)
            return bool(connection.recv(1024))
    except OSError:
        return False


class Flag:
    """One byte of shared memory that the platform sets to `1` when the task is about to be suspended.

    Attributes:
        polled: Whether a program on this rank attached the byte before it was set, as HAI's own client does when it is
            imported. Such a program needs no other notice.
    """

    def __init__(self) -> None:
        """Attach the byte, and create it as the platform does; without shared memory there are no notices."""
        self.polled = False
        self._address = self._id = 0
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            libc.shmat.restype = ctypes.c_void_p
            libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
            self._id = libc.shmget(ctypes.c_int(_KEY), ctypes.c_size_t(1), 0o1777)  # IPC_CREAT, for everybody
            address = libc.shmat(self._id, None, 0) if self._id >= 0 else None
            self._address = address if address not in (None, ctypes.c_void_p(-1).value) else 0
        self._before = self._attached()  # this process, and processes of the platform

    def up(self) -> bool:
        """Return whether the flag is set."""
        if not self._address:
            return False
        if ctypes.string_at(self._address, 1) == b"1":
            return True
        self.polled = self._attached() > self._before  # only before it is set: the script that sets it attaches it too
        return False

    def _attached(self) -> int:
        """Return how many processes have attached the byte; 0 = not known."""
        with contextlib.suppress(OSError):
            rows = [line.split() for line in pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()]
            return sum(int(row[6]) for row in rows if row[1] == str(self._id))  # key, shmid, perms, size, cpid, lpid
        return 0
