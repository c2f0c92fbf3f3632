"""Writes log files in blocks and reads them line by line: `<UTC time> <replica>[/<container>] <line>`."""

import contextlib
import datetime as dt
import re
from collections.abc import Iterator
from typing import IO

from tfsteps.runs.events import LogLines

_LOG_LINE = re.compile(rb"((?:19|20)\d\d-[\d-]{5}T[\d:.]{15}Z) ([a-z]+-\d{1,9}(?:/[a-z\d-]{1,63})?) (.*)\n", re.DOTALL)


def log_block(lines: LogLines) -> bytes:
    """Return the lines in the format of the log file; each ends with a newline."""
    head = b" %b " % lines.source.encode()
    if lines.stamps:
        return b"".join([b"%b%b%b\n" % (at, head, text) for at, text in zip(lines.stamps, lines.texts, strict=True)])
    head = stamp(lines.at) + head
    return b"".join([b"%b%b\n" % (head, text) for text in lines.texts])


def stamp(at: float) -> bytes:
    """Return a time, in seconds since the epoch, in the format of the log file: `2026-11-21T08:00:01.500000Z`."""
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()


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
    unread, and the next call can read it. A line that a full disk or a crash has damaged is skipped.
    """
    while True:
        at = lines.tell()
        line = lines.readline()
        if not line.endswith(b"\n"):
            lines.seek(at)
            return
        match = _LOG_LINE.fullmatch(line)
        if match is None:
            continue
        with contextlib.suppress(ValueError):  # such as February 31
            dt.datetime.fromisoformat(when := match[1].decode())
            yield when, match[2].decode(), match[3]
