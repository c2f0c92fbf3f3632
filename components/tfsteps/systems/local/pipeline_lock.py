"""Ends jobs that outlast their step when the pipeline of the step ends.

The pipeline holds a file lock while it runs. A process that waits for the lock gets it when the pipeline ends, even if
it was killed.
"""

import fcntl
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import IO, Self

_VARIABLE = "TFSTEPS_PIPELINE"


class PipelineLock:
    """A lock that is held during the `with` block, at most until this process ends."""

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile()
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    @property
    def env(self) -> Mapping[str, str]:
        """The environment variables of the pipeline's steps."""
        return {_VARIABLE: f"/proc/{os.getpid()}/fd/{self._file.fileno()}"}

    def __exit__(self, *_: object) -> None:
        self._file.close()


def at_end(act: Callable[[], None]) -> None:
    """Call `act` after the pipeline of this process has ended, usually in a thread; never without a pipeline."""
    path = os.environ.get(_VARIABLE)
    if not path:
        return
    try:
        file = open(path, "rb")  # noqa: SIM115, PTH123  its own description: a lock is not shared with the pipeline's
    except OSError:  # the pipeline has ended already
        act()
        return
    threading.Thread(target=_wait, args=(file, act), name="pipeline", daemon=True).start()


def _wait(file: IO[bytes], act: Callable[[], None]) -> None:
    with file:
        fcntl.flock(file, fcntl.LOCK_SH)
    act()
