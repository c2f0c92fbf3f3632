"""Writes the log of one attempt, and keeps the last lines of each replica in memory."""

import collections
import contextlib
import pathlib
import sys
from typing import IO

from tfsteps.runs.events import LastLines, LogLines
from tfsteps.runs.log_file import NOT_SAVED, Segment, log_block, set_aside
from tfsteps.runs.store import open_private
from tfsteps.spec import format_bytes
from tfsteps.spec.units import environment_limit, parse_bytes

VARIABLE = "TFSTEPS_LOG_LIMIT"
DEFAULT = 1 << 30
_LEAST = 16 << 20  # a segment, an eighth of it, must have room for a line of 1 MiB
_MOST = 1 << 50
_SEGMENTS = 4  # in the second half
_KEPT = 2  # incarnations of a replica


def log_limit() -> tuple[int, str]:
    """Return the limit of TFSTEPS_LOG_LIMIT in bytes, 0 = none, and what is wrong with the variable; empty = nothing.

    If it is wrong, the limit is the default.
    """
    allowed = f"0 for no limit, or a size from {_LEAST >> 20}Mi to 1024Ti, such as 200Mi or 4Gi"

    def size(text: str) -> int:
        return parse_bytes(text.removesuffix("B"))

    return environment_limit(VARIABLE, size, "a size", least=_LEAST, most=_MOST, default=DEFAULT, allowed=allowed)


class Tails:
    """Keeps the last lines of the last two incarnations of each replica, and of its init containers and sidecars."""

    def __init__(self) -> None:
        """Start without lines."""
        self._tails: dict[str, dict[int, LastLines]] = {}  # by source and incarnation

    def add(self, lines: LogLines) -> None:
        """Add lines; lines without an incarnation belong to the newest one."""
        tails = self._tails.setdefault(lines.source, {})
        newest = max(tails, default=0)
        number = newest if lines.incarnation is None else lines.incarnation
        if lines.tail:
            tails[number] = lines.tail
        else:
            tails.setdefault(number, LastLines()).add(lines.texts)
        if len(tails) > _KEPT:
            del tails[min(tails)]

    def last_lines(self, source: str, incarnation: int) -> list[str]:
        """Return the last lines of an incarnation, counted from 0, of `worker-1` or its container `worker-1/init-data`.

        For an init container or a sidecar, return the lines of its newest incarnation up to that one. Empty if the
        incarnation printed nothing, or is not one of the last two.
        """
        tails = self._tails.get(source, {})
        if "/" in source:  # an init container or a sidecar, which continues when the program restarts
            incarnation = max((number for number in tails if number <= incarnation), default=0)
        tail = tails.get(incarnation)
        return tail.lines() if tail else []


class LogWriter:
    """Saves log lines. On a full disk lines are lost, and the job continues.

    If the log reaches its limit, lines in its middle are dropped: the first half of the limit stays, and the second
    half is a ring of segments, see `tfsteps.runs.log_file`.

    Attributes:
        lost: Number of lines that could not be saved.
        error: The first error; empty = no line was lost.
        tails: The last lines of each replica.
    """

    def __init__(self, path: pathlib.Path, limit: int = 0) -> None:
        """Create the file at `path`. An existing log is renamed to `log.1`, because all lines are read again.

        Args:
            path: The file.
            limit: The most bytes of the log; 0 = no limit. A line that is longer than a segment may exceed it.
        """
        self.lost = 0
        self.error = ""
        self.tails = Tails()
        set_aside(path)
        self._path, self._limit = path, limit
        self._file: IO[bytes] = open_private(path, "ab", buffering=0)
        self._room = limit // 2 if limit else sys.maxsize  # free bytes in the open file
        self._empty = True  # nothing has been written to the open file
        self._broken = False  # it ends with a part of a line
        self._segments: collections.deque[Segment] = collections.deque()  # the last one is the open file
        self._offset = self._lines = 0  # bytes and lines that were written to segments

    def write(self, lines: LogLines) -> None:
        """Save each line as a whole, or count it as lost."""
        if not lines.texts:
            return
        self.tails.add(lines)
        data = log_block(lines)
        self.lost += len(lines.texts) - (self._save(data) if len(data) <= self._room else self._save_parts(data))

    def _save_parts(self, data: bytes) -> int:
        """Write the lines to several files, as the limit requires, and return the number of lines that were saved."""
        saved = start = 0
        while len(data) - start > self._room:
            end = data.rfind(b"\n", start, start + max(self._room, 0)) + 1
            if not end and self._empty:  # a line that is longer than a segment
                end = data.index(b"\n", start) + 1
            if end:
                saved += self._save(data[start:end])
                start = end
            if self._empty:  # the disk is full
                return saved
            try:
                self._begin_segment()
            except OSError as error:
                self.error = self.error or f"{error.strerror}: {error.filename}"
                return saved
            self._broken = False
        return saved + self._save(data[start:])

    def _save(self, data: bytes) -> int:
        """Write as many bytes as the disk has space for, and return the number of lines that were saved."""
        if self._broken:  # only a part of the previous line was written: end that line first
            data = b"\n" + data
        done = 0
        try:
            while done < len(data):
                done += self._file.write(data[done:] if done else data)
        except OSError as error:
            self.error = self.error or f"{error.strerror}: {self._file.name}"
        if not done:
            return 0
        newlines = data.count(b"\n", 0, done)
        self._room -= done
        self._empty = False
        if self._segments:
            self._offset += done
            self._lines += newlines
        saved = newlines - int(self._broken)
        self._broken = not data.endswith(b"\n", 0, done)
        return saved

    def _begin_segment(self) -> None:
        """Begin a new segment, and delete the oldest for it. OSError if that fails; the open file stays."""
        size = self._limit // 2 // _SEGMENTS
        while len(self._segments) > 1 and self._offset + size - self._segments[0].offset > self._limit // 2:
            self._segments[0].path.unlink(missing_ok=True)
            self._segments.popleft()
        segment = Segment.of(self._path, self._offset, self._lines)
        file = open_private(segment.path, "ab", buffering=0)
        self._file.close()
        self._file, self._room, self._empty = file, size, True
        self._segments.append(segment)

    @property
    def warnings(self) -> list[str]:
        """Which lines the log lacks: those that could not be saved, and those that were dropped."""
        warnings = [f"{self.lost} {NOT_SAVED}{self.error}"] if self.lost else []
        if self._segments and (lines := self._segments[0].lines):
            size = format_bytes(self._segments[0].offset)
            limit = f"it reached its limit of {format_bytes(self._limit)} ({VARIABLE})"
            warnings.append(f"{lines} lines ({size}) were dropped from the middle of the log: {limit}.")
        return warnings

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()
