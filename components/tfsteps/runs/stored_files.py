"""The files of records at an address, as every kind of place lists them."""

import time

import msgspec


class StoredFile(msgspec.Struct, frozen=True):
    """One file.

    Attributes:
        path: `runs/RUN/TASK/ATTEMPT/NAME`.
        size: In bytes.
        changed: When it was stored, in seconds since the epoch.
    """

    path: str
    size: int
    changed: float


def check_time(until: float, what: str) -> None:
    """Raise TimeoutError after `until`, a value of `time.monotonic()`; `what` is missing then."""
    if time.monotonic() > until:
        raise TimeoutError(f"it took too long; {what} and what follows are missing")
