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

import msgspec

from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.process_ref import ProcessRef

_VARIABLE = "TFSTEPS_PIPELINE"


class _Holder(msgspec.Struct, frozen=True):
    """The process of a pipeline, and its file descriptor of the locked file."""

    process: ProcessRef
    file: int


class PipelineLock:
    """A lock that is held during the `with` block, at most until this process ends."""

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile()
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    @property
    def env(self) -> Mapping[str, str]:
        """The environment variables of the pipeline's steps."""
        holder = _Holder(ProcessRef.current(), self._file.fileno())
        return {_VARIABLE: msgspec.json.encode(holder).decode()}

    def __exit__(self, *_: object) -> None:
        self._file.close()


def at_end(act: Callable[[], None]) -> None:
    """Call `act` after the pipeline of this process has ended, usually in a thread.

    Never without a pipeline, or if its process cannot be seen from here: whether it has ended is not known then.
    """
    try:
        holder = msgspec.json.decode(os.environ.get(_VARIABLE, ""), type=_Holder)
    except NOT_READABLE:
        return
    if holder.process.elsewhere:
        return
    try:  # a description of its own: a lock is not shared with the pipeline's
        file = open(f"/proc/{holder.process.pid}/fd/{holder.file}", "rb")  # noqa: SIM115, PTH123
    except (FileNotFoundError, ProcessLookupError):  # it has released the lock, or has ended
        act()
        return
    except OSError:
        if holder.process.alive().no:  # its id is another process now
            act()
        return
    threading.Thread(target=_wait, args=(file, act), name="pipeline", daemon=True).start()


def _wait(file: IO[bytes], act: Callable[[], None]) -> None:
    with file:
        fcntl.flock(file, fcntl.LOCK_SH)
    act()
