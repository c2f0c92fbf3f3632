"""How the platform announces that a task is about to be suspended."""

from __future__ import annotations

import contextlib
import ctypes

_KEY = 7123378543 & 0xFFFFFFFF  # of the shared memory where rank 0 is told; a key has 32 bits


class Flag:
    """One byte of shared memory that the platform sets to `1` when the task is about to be suspended."""

    def __init__(self) -> None:
        """Attach to it, creating it as the platform would; without shared memory there are no notices."""
        self._address = 0
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            libc.shmat.restype = ctypes.c_void_p
            libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
            known = libc.shmget(ctypes.c_int(_KEY), ctypes.c_size_t(1), 0o1777)  # IPC_CREAT, for everybody
            found = libc.shmat(known, None, 0) if known >= 0 else None
            self._address = found if found not in (None, ctypes.c_void_p(-1).value) else 0

    def up(self) -> bool:
        """Tell whether it is set."""
        return bool(self._address) and ctypes.string_at(self._address, 1) == b"1"
