"""Whether a job writes event files: a sign of life of programs that print nothing."""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from typing import Self


class EventFileGrowth:
    """Checks the event files below a folder for growth, as long as its `with` block lasts.

    In a thread of its own: the folder may be on a network file system that does not answer.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        seconds: float,
        sizes: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        """Prepare to check.

        Args:
            logdir: The folder. If it does not exist here, or not yet, it does not grow.
            seconds: Pause between two checks.
            sizes: Returns the sizes of the event files by path; None = the files below `logdir`.
        """
        self._sizes = sizes or (lambda: file_sizes(logdir))
        self._seconds = seconds
        self._grown = threading.Event()
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        """Start to check."""
        threading.Thread(target=self._look, name="event files", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop to check."""
        self._closed.set()

    def grown(self) -> bool:
        """Tell whether the event files have grown since the last call."""
        grown = self._grown.is_set()
        self._grown.clear()
        return grown

    def _look(self) -> None:
        known: Mapping[str, int] | None = None
        while True:
            with contextlib.suppress(Exception):  # an object store fails in many ways; the next check may succeed
                sizes = self._sizes()
                if known is not None and sizes != known:
                    self._grown.set()
                known = sizes
            if self._closed.wait(self._seconds):
                return


def file_sizes(logdir: str | os.PathLike[str]) -> dict[str, int]:
    """Return the size in bytes of each event file below a folder, by path; files that cannot be read are left out."""
    sizes = {}
    for folder, _, names in os.walk(logdir):
        for path in (os.path.join(folder, name) for name in names if "tfevents" in name):  # noqa: PTH118  as there
            with contextlib.suppress(OSError):
                sizes[path] = os.stat(path).st_size  # noqa: PTH116
    return sizes
