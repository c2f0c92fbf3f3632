"""Writes the log of one attempt, and keeps the last lines of each replica in memory."""

import contextlib
import pathlib

from tfsteps.launcher.log_limit import VARIABLE, LogFiles
from tfsteps.runs.events import LogLines
from tfsteps.runs.last_lines import LastLines
from tfsteps.runs.log_file import log_block
from tfsteps.spec import format_bytes

_KEPT = 2  # incarnations of a replica


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

    If the log reaches its limit, lines in its middle are dropped, see `tfsteps.runs.log_segments`.

    Attributes:
        lost: Number of lines that could not be saved.
        error: The first error; empty = no line was lost.
        tails: The last lines of each replica.
    """

    def __init__(self, path: pathlib.Path, limit: int = 0) -> None:
        """Create the file at `path`. An existing log is renamed to `log.1`, because all lines are read again.

        Args:
            path: The file.
            limit: The most bytes of the log; 0 = no limit.
        """
        self.lost = 0
        self.error = ""
        self._files = LogFiles(path, limit)
        self.tails = Tails()
        self._broken = False

    def write(self, lines: LogLines) -> None:
        """Save each line as a whole, or count it as lost."""
        if not lines.texts:
            return
        self.tails.add(lines)
        data = log_block(lines)
        self.lost += len(lines.texts) - (self._save(data) if len(data) <= self._files.room else self._save_parts(data))

    def _save_parts(self, data: bytes) -> int:
        """Write the lines to several files, as the limit requires, and return the number of lines that were saved."""
        saved = start = 0
        while len(data) - start > self._files.room:
            end = data.rfind(b"\n", start, start + max(self._files.room, 0)) + 1
            if not end and self._files.empty:  # a line that is longer than a segment
                end = data.index(b"\n", start) + 1
            if end:
                saved += self._save(data[start:end])
                start = end
            if self._files.empty:  # the disk is full
                return saved
            try:
                self._files.advance()
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
                done += self._files.file.write(data[done:] if done else data)
        except OSError as error:
            self.error = self.error or f"{error.strerror}: {self._files.file.name}"
        if not done:
            return 0
        newlines = data.count(b"\n", 0, done)
        self._files.count(done, newlines)
        saved = newlines - int(self._broken)
        self._broken = not data.endswith(b"\n", 0, done)
        return saved

    @property
    def warnings(self) -> list[str]:
        """Which lines the log lacks: those that could not be saved, and those that were dropped."""
        warnings = [f"{self.lost} log lines could not be saved: {self.error}"] if self.lost else []
        lines, size = self._files.dropped
        if lines:
            limit = f"it reached its limit of {format_bytes(self._files.limit)} ({VARIABLE})"
            warnings.append(f"{lines} lines ({format_bytes(size)}) were dropped from the middle of the log: {limit}.")
        return warnings

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._files.file.close()
