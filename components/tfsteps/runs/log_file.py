"""The log of an attempt: its lines, and its files if the middle of a long log is dropped.

`log` has the first part of such a log, and segments have its last part:

    log.tail-<bytes>-<lines>   both numbers count what was written to all segments before this one

A writer begins a new segment when the last one is full, and deletes the oldest. A segment is complete once a later one
exists, and the numbers in the names show how much is missing. Therefore readers need no lock, and the log of a killed
writer is readable. A log that has not reached its limit has no segments.
"""

import contextlib
import datetime as dt
import os
import pathlib
import re
import shutil
import time
from collections.abc import Iterator
from typing import IO, Self

import msgspec

from tfsteps.runs.events import LogLines
from tfsteps.spec import format_bytes

_LOG_LINE = re.compile(rb"((?:19|20)\d\d-[\d-]{5}T[\d:.]{15}Z) ([a-z]+-\d{1,9}(?:/[a-z\d-]{1,63})?) (.*)\n", re.DOTALL)

GAP = "log"
"""The source of the line that `LogReader` puts where lines were dropped or are damaged. No replica has this name."""

NOT_SAVED = "log lines could not be saved: "
"""What the warning of a status contains if lines were lost on a full disk, after their number and before the error."""

_SEGMENT = re.compile(r"(.+)\.tail-(\d{15})-(\d{12})", re.DOTALL)
_BLOCK = 1 << 20
_LAST = 253402300799.0  # the last second of the year 9999


def log_block(lines: LogLines) -> bytes:
    """Return the lines in the format of the log file; each ends with a newline."""
    head = b" %b " % lines.source.encode()
    if lines.stamps:
        return b"".join([b"%b%b%b\n" % (at, head, text) for at, text in zip(lines.stamps, lines.texts, strict=True)])
    head = stamp(lines.at) + head
    return b"".join([b"%b%b\n" % (head, text) for text in lines.texts])


def stamp(at: float) -> bytes:
    """Return a time, in seconds since the epoch, in the format of the log file: `2026-11-21T08:00:01.500000Z`.

    Of a time that no calendar has, from a garbled record, the nearest of 1970 to 9999.
    """
    return dt.datetime.fromtimestamp(max(0.0, min(at, _LAST)), dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()


def times(lines: LogLines) -> Iterator[tuple[float, bytes]]:
    """Yield each line's time, in seconds since the epoch, and its text."""
    if not lines.stamps:
        yield from ((lines.at, text) for text in lines.texts)
        return
    for at, text in zip(lines.stamps, lines.texts, strict=True):
        yield dt.datetime.fromisoformat(at.decode()).timestamp(), text


def read_log(lines: IO[bytes]) -> Iterator[tuple[str, str, bytes]]:
    """Yield (time stamp, source, text) of each whole line of a log file.

    The source is `worker-1`, or `worker-1/init-data` for an init container or a sidecar. An unfinished last line stays
    unread, and the next call can read it. For lines that a full disk, a crash or another program has damaged, the
    source is `GAP`, and the text has their number.
    """
    damaged = 0
    while True:
        at = lines.tell()
        line = lines.readline()
        if not line.endswith(b"\n"):
            lines.seek(at)
            if damaged:
                yield stamp(time.time()).decode(), GAP, _damaged_text(damaged)
            return
        match = _LOG_LINE.fullmatch(line)
        if match is None or not _is_time(when := match[1].decode()):
            damaged += 1
            continue
        if damaged:
            yield when, GAP, _damaged_text(damaged)
            damaged = 0
        yield when, match[2].decode(), match[3]


def _is_time(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:  # such as February 31
        return False
    return True


def _damaged_text(lines: int) -> bytes:
    return b"(log incomplete: %d damaged line%b)" % (lines, b"s" if lines > 1 else b"")


class Segment(msgspec.Struct, frozen=True):
    """One file of the last part of a log.

    Attributes:
        path: Its path.
        offset: Bytes in all segments before it.
        lines: Lines in all segments before it.
    """

    path: pathlib.Path
    offset: int
    lines: int

    @classmethod
    def of(cls, log: pathlib.Path, offset: int, lines: int) -> "Segment":
        """Return the segment of `log` that begins there; its file need not exist."""
        return cls(log.with_name(f"{log.name}.tail-{offset:015}-{lines:012}"), offset, lines)


def segments(log: pathlib.Path) -> list[Segment]:
    """Return the segments of a log, the oldest first; empty = it has not reached its limit."""
    try:
        matches = [match for file in os.listdir(log.parent) if (match := _SEGMENT.fullmatch(file))]  # noqa: PTH208
    except FileNotFoundError:
        return []
    of_log = (Segment(log.with_name(m[0]), int(m[2]), int(m[3])) for m in matches if m[1] == log.name)
    return sorted(of_log, key=lambda segment: segment.offset)


def set_aside(log: pathlib.Path) -> None:
    """Rename a log and its segments to `log.1`, in place of an earlier log of that name; there may be none."""
    old = log.with_name(f"{log.name}.1")
    for segment in segments(old):
        segment.path.unlink(missing_ok=True)
    for segment in segments(log):
        segment.path.rename(Segment.of(old, segment.offset, segment.lines).path)
    with contextlib.suppress(FileNotFoundError):
        log.replace(old)


def copy(log: pathlib.Path, target: pathlib.Path) -> None:
    """Copy a log that nobody writes to into one file, with a line where lines were dropped."""
    shutil.copyfile(log, target)
    kept = segments(log)
    with target.open("ab") as out:
        if kept and kept[0].offset:
            out.write(gap_text(kept[0].lines, kept[0].offset) + b"\n")
        for segment in kept:
            with segment.path.open("rb") as file:
                shutil.copyfileobj(file, out, _BLOCK)


def gap_text(lines: int, size: int) -> bytes:
    """Return the text of the line that is shown where lines were dropped; `size` is in bytes."""
    what = f"{lines} lines of all replicas, {format_bytes(size)}, were dropped"
    return f"(log incomplete: {what}: the log reached its limit, TFSTEPS_LOG_LIMIT)".encode()


class LogReader:
    """Reads the lines of a log, also while it is written. It keeps one file open; close it, or use it in `with`."""

    def __init__(self, log: pathlib.Path) -> None:
        """Open the log. FileNotFoundError if there is none."""
        self._log = log
        self._file: IO[bytes] = log.open("rb")
        self._inode = os.fstat(self._file.fileno()).st_ino
        self._segment: Segment | None = None  # the open file; None = the first part

    def read(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield (time stamp, source, text) of each new whole line, as `read_log` does.

        Where lines were dropped or are damaged, the source is `GAP`, and the text says how many. A line that is not
        finished yet stays unread, and the next call can read it.
        """
        while True:
            yield from read_log(self._file)
            if not self._next():
                return
            yield from read_log(self._file)  # what was written before the next segment began
            while (following := self._next()) and not (file := _opened(following)):
                pass  # it was dropped meanwhile
            if not following or not file:
                return
            missing = following.offset - self._end()
            lines = following.lines - self._end_line() if missing else 0
            self._file.close()
            self._file, self._segment = file, following
            if missing:
                yield from self._gap(gap_text(lines, missing))

    def _next(self) -> Segment | None:
        """Return the segment after the open file; None if there is none yet, or a new launcher began a new log."""
        after = self._segment.offset if self._segment else -1
        following = next((segment for segment in segments(self._log) if segment.offset > after), None)
        try:
            return following if following and self._log.stat().st_ino == self._inode else None
        except FileNotFoundError:
            return None

    def _end(self) -> int:
        """Return how many bytes of the segments end with the open file, which is complete."""
        return self._segment.offset + os.fstat(self._file.fileno()).st_size if self._segment else 0

    def _end_line(self) -> int:
        """Return how many lines of the segments end with the open file."""
        if not self._segment:
            return 0
        self._file.seek(0)
        return self._segment.lines + sum(block.count(b"\n") for block in iter(lambda: self._file.read(_BLOCK), b""))

    def _gap(self, text: bytes) -> Iterator[tuple[str, str, bytes]]:
        """Yield the line about the gap, with the time of the line after it, and that line."""
        line = next(read_log(self._file), None)
        yield line[0] if line else stamp(time.time()).decode(), GAP, text
        if line:
            yield line

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(segment: Segment) -> IO[bytes] | None:
    try:
        return segment.path.open("rb")
    except FileNotFoundError:
        return None
