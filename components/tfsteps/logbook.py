"""The log of one attempt: every line saved in order, and the last ones of each replica at hand."""

import contextlib
import pathlib
from typing import IO

from tfsteps.log_file import log_block
from tfsteps.records import open_private
from tfsteps.systems.base import LogLines
from tfsteps.tails import Tail

_KEPT = 2  # incarnations whose last lines are at hand


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
        self._file: IO[bytes] = open_private(path, "ab", buffering=0)
        self._tails: dict[str, dict[int, Tail]] = {}  # by incarnation
        self._broken = False

    def write(self, lines: LogLines) -> None:
        """Save each line as a whole, or count it as lost."""
        if not lines.texts:
            return
        self._tail(lines).add(lines.texts)
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

    def last_lines(self, replica: str, incarnation: int) -> list[str]:
        """Return the last lines of one incarnation of a replica, from 0; of its other containers those up to it.

        Empty for one that printed nothing, or too long ago.
        """
        tails = self._tails.get(replica, {})
        if "/" in replica:  # an init container or a sidecar, which runs on while the program is started again
            incarnation = max((number for number in tails if number <= incarnation), default=0)
        tail = tails.get(incarnation)
        return tail.lines() if tail else []

    def _tail(self, lines: LogLines) -> Tail:
        """Return what keeps the tail of the lines' incarnation; those of the last two are kept.

        Lines that tell no incarnation are the newest one's; those of one that is not kept any more are dropped.
        """
        tails = self._tails.setdefault(lines.source, {})
        newest = max(tails, default=0)
        number = newest if lines.incarnation is None else lines.incarnation
        tail = tails.setdefault(number, Tail())
        if len(tails) > _KEPT:
            del tails[min(tails)]
        return tail

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()
