"""Ties jobs that outlast the step that launched them to the pipeline that the step belongs to.

The pipeline holds a lock for as long as it lives; who waits for that lock learns of its end, however it came.
"""

import fcntl
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import IO, Self

_VARIABLE = "TFSTEPS_PIPELINE"


class PipelineLock:
    """Held as long as the `with` block, or this process."""

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile()
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    @property
    def env(self) -> Mapping[str, str]:
        """What the pipeline's steps are told."""
        return {_VARIABLE: f"/proc/{os.getpid()}/fd/{self._file.fileno()}"}

    def __exit__(self, *_: object) -> None:
        self._file.close()


def at_end(act: Callable[[], None]) -> None:
    """Call `act` from a thread once the pipeline that this process belongs to is over; never where there is none."""
    path = os.environ.get(_VARIABLE)
    if not path:
        return
    try:
        file = open(path, "rb")  # noqa: SIM115, PTH123  its own description: a lock is not shared with the pipeline's
    except OSError:  # it is over already
        act()
        return
    threading.Thread(target=_wait, args=(file, act), name="pipeline", daemon=True).start()


def _wait(file: IO[bytes], act: Callable[[], None]) -> None:
    with file:
        fcntl.flock(file, fcntl.LOCK_SH)
    act()
