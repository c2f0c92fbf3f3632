"""The log of one attempt: every line saved in order, and the last ones of each replica at hand."""

import contextlib
import pathlib
from typing import IO

from tfsteps.runs.events import LogLines
from tfsteps.runs.last_lines import Tails
from tfsteps.runs.log_file import log_block
from tfsteps.runs.store import open_private


class LogWriter:
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
        """Write as much as the disk takes, and return how much that was."""
        if self._broken:  # the disk took a part of the line before: end that line first
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
