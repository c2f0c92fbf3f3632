"""The platform's notice that a task is about to be suspended."""

from __future__ import annotations

import contextlib
import ctypes
import pathlib

_KEY = 7123378543 & 0xFFFFFFFF  # key of the shared memory with the flag of rank 0; keys have 32 bits


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
