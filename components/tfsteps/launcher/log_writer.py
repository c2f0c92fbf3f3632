"""Writes the log of one attempt, and keeps the last lines of each replica in memory."""

import contextlib
import pathlib
from typing import IO

from tfsteps.runs.events import LogLines
from tfsteps.runs.last_lines import Tails
from tfsteps.runs.log_file import log_block
from tfsteps.runs.store import open_private


class LogWriter:
    """Saves log lines. On a full disk lines are lost, and the job continues.

    Attributes:
        lost: Number of lines that could not be saved.
        error: The first error; empty = no line was lost.
    """

    def __init__(self, path: pathlib.Path) -> None:
        """Create the file at `path`. An existing file is renamed to `log.1`, because all lines are read again."""
        self.lost = 0
        self.error = ""
        with contextlib.suppress(FileNotFoundError):
            path.replace(path.with_name(f"{path.name}.1"))
        self._file: IO[bytes] = open_private(path, "ab", buffering=0)
        self._tails = Tails()
        self._broken = False

    def write(self, lines: LogLines) -> None:
        """Save each line as a whole, or count it as lost."""
        if not lines.texts:
            return
        self._tails.add(lines)
        data = log_block(lines)
        self.lost += len(lines.texts) - data[: self._save(data)].count(b"\n")

    def _save(self, data: bytes) -> int:
        """Write as many bytes as the disk has space for, and return their number."""
        if self._broken:  # only a part of the previous line was written: end that line first
            data = b"\n" + data
        done = 0
        try:
            while done < len(data):
                done += self._file.write(data[done:] if done else data)
        except OSError as error:
            self.error = self.error or f"{error.strerror}: {self._file.name}"
        before = int(self._broken)
        if done:
            self._broken = not data.endswith(b"\n", 0, done)
        return max(0, done - before)

    def last_lines(self, source: str, incarnation: int) -> list[str]:
        """Return the last lines of one incarnation of a replica or container, as `Tails.last_lines` does."""
        return self._tails.last_lines(source, incarnation)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()
