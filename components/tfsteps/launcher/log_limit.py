"""The limit of the log of one attempt, and the files that keep to it."""

import collections
import os
import pathlib
import sys
from typing import IO

from tfsteps.runs.log_segments import Segment, set_aside
from tfsteps.runs.store import open_private
from tfsteps.spec.units import parse_bytes

VARIABLE = "TFSTEPS_LOG_LIMIT"
DEFAULT = 1 << 30
_LEAST = 16 << 20  # a segment, an eighth of it, must have room for a line of 1 MiB
_MOST = 1 << 50
_SEGMENTS = 4  # in the second half


def log_limit() -> tuple[int, str]:
    """Return the limit of TFSTEPS_LOG_LIMIT in bytes, 0 = none, and what is wrong with the variable; empty = nothing.

    If it is wrong, the limit is the default.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT, ""
    allowed = f"allowed: 0 for no limit, or a size from {_LEAST >> 20}Mi to 1024Ti, such as 200Mi or 4Gi"
    try:
        limit = parse_bytes(text.removesuffix("B"))
    except ValueError:
        return DEFAULT, f"{VARIABLE}={text!r} is not a size; {allowed}"
    if limit and not _LEAST <= limit <= _MOST:
        size = "small" if limit < _LEAST else "large"
        return DEFAULT, f"{VARIABLE}={text!r} is too {size}; {allowed}"
    return limit, ""


class LogFiles:
    """The files of one log. The first half of the limit stays; the second half is a ring of segments.

    Attributes:
        limit: The most bytes of all files, 0 = no limit; a line that is longer than a segment may exceed it.
        file: The open file, unbuffered.
        room: Free bytes in the open file.
        empty: Whether nothing has been written to the open file.
    """

    def __init__(self, path: pathlib.Path, limit: int) -> None:
        """Create the first file at `path`. A log that exists is renamed to `log.1`."""
        set_aside(path)
        self.limit = limit
        self.file: IO[bytes] = open_private(path, "ab", buffering=0)
        self.room = limit // 2 if limit else sys.maxsize
        self.empty = True
        self._path = path
        self._kept: collections.deque[Segment] = collections.deque()  # the last one is the open file
        self._offset = self._lines = 0  # bytes and lines that were written to segments

    @property
    def dropped(self) -> tuple[int, int]:
        """The lines and bytes that were dropped."""
        return (self._kept[0].lines, self._kept[0].offset) if self._kept else (0, 0)

    def count(self, size: int, lines: int) -> None:
        """Count bytes, and the lines that end in them, which were written to the open file."""
        self.room -= size
        self.empty = self.empty and not size
        if self._kept:
            self._offset += size
            self._lines += lines

    def advance(self) -> None:
        """Begin a new segment, and delete the oldest for it. OSError if that fails; the open file stays."""
        size = self.limit // 2 // _SEGMENTS
        while len(self._kept) > 1 and self._offset + size - self._kept[0].offset > self.limit // 2:
            self._kept[0].path.unlink(missing_ok=True)
            self._kept.popleft()
        segment = Segment.of(self._path, self._offset, self._lines)
        file = open_private(segment.path, "ab", buffering=0)
        self.file.close()
        self.file, self.room, self.empty = file, size, True
        self._kept.append(segment)
