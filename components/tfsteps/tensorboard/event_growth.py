"""Whether a job writes event files: a sign of life of programs that print nothing."""

import contextlib
import os
import threading
from typing import Self


class EventFileGrowth:
    """Looks again and again for growth of the event files below a folder, as long as its `with` block lasts.

    In a thread of its own: the folder may be on a network file system that does not answer.
    """

    def __init__(self, logdir: str | os.PathLike[str], seconds: float) -> None:
        """Look every so many seconds. A folder that does not exist here, or not yet, does not grow."""
        self._logdir = logdir
        self._seconds = seconds
        self._grown = threading.Event()
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        """Begin to look."""
        threading.Thread(target=self._look, name="event files", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look no more."""
        self._closed.set()

    def grown(self) -> bool:
        """Tell whether they have grown since the last call."""
        grown = self._grown.is_set()
        self._grown.clear()
        return grown

    def _look(self) -> None:
        known = _sizes(self._logdir)
        while not self._closed.wait(self._seconds):
            if (sizes := _sizes(self._logdir)) != known:
                known = sizes
                self._grown.set()


def _sizes(logdir: str | os.PathLike[str]) -> dict[str, int]:
    sizes = {}
    for folder, _, names in os.walk(logdir):
        for path in (os.path.join(folder, name) for name in names if "tfevents" in name):  # noqa: PTH118  as there
            with contextlib.suppress(OSError):
                sizes[path] = os.stat(path).st_size  # noqa: PTH116
    return sizes
