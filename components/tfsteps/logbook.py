"""The log of one attempt: every line saved in order, and the last ones of each replica at hand."""

import collections
import contextlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import IO

from tfsteps.records import log_line
from tfsteps.systems.base import LogLine

_TAIL_LINES = 60
_TAIL_WIDTH = 2000


class Logbook:
    """Saves log lines; a disk that is full costs lines, never the job.

    Attributes:
        lost: Lines that could not be saved.
        error: Why, the first time; empty = nothing was lost.
    """

    def __init__(self, path: pathlib.Path) -> None:
        """Begin the file at `path`; one that is there is kept beside it, as `log.1`: all of it comes again."""
        self.lost = 0
        self.error = ""
        with contextlib.suppress(FileNotFoundError):
            path.replace(path.with_name(f"{path.name}.1"))
        self._file: IO[bytes] = path.open("ab", buffering=0)
        self._tails: dict[str, collections.deque[str]] = {}
        self._broken = False

    def write(self, line: LogLine) -> None:
        """Save one line as a whole, or count it as lost."""
        name = str(line.replica)
        tail = self._tails.setdefault(name, collections.deque(maxlen=_TAIL_LINES))
        tail.append(line.text[:_TAIL_WIDTH].decode(errors="replace"))
        data = log_line(line.at, name, line.text)
        if self._broken:  # the disk took a part of the line before: end that line first
            data = b"\n" + data
        try:
            written = self._file.write(data)
            self._broken = written < len(data)
            self.lost += self._broken
        except OSError as error:
            self.lost += 1
            self.error = self.error or f"{error.strerror}: {self._file.name}"

    def tails(self) -> Mapping[str, Sequence[str]]:
        """Return the last lines of each replica, by name."""
        return {name: list(tail) for name, tail in self._tails.items()}

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()
