"""Times, durations and foreign text, as people read them."""

import datetime as dt
import os
import shlex
import sys
from collections.abc import Sequence

from tfsteps.masking import hidden
from tfsteps.runs.status import CLOCK_SECONDS
from tfsteps.spec import format_duration
from tfsteps.text.terminal import plain, shown

NOT_KNOWN = "not known"

_MAX_LINE = 2000  # characters of a log line that are shown on a terminal


def clean(text: str | bytes) -> str:
    """Return one line of foreign text that is safe to show: no escape sequences, control characters and credentials.

    Of a line that was drawn over itself by carriage returns, as progress bars are, the last state counts.
    """
    if isinstance(text, bytes):
        text = text[: 4 * _MAX_LINE].decode(errors="replace") if b"\r" not in text else text.decode(errors="replace")
    line = hidden(plain(text)).replace("\t", "    ")
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}… (cut)"


def printable(line: bytes) -> bytes:
    """Return a log line for standard output: raw, but on a terminal with all control characters but colours escaped."""
    if not sys.stdout.isatty():
        return line
    return shown(line).encode(sys.stdout.encoding, "backslashreplace")


def shell_path(path: str | os.PathLike[str]) -> str:
    """Return a path as a word of a command line that nobody reads as an option; `-` is standard input."""
    text = os.fspath(path)
    return shlex.quote(f"./{text}" if text.startswith("-") and text != "-" else text)


def local_time(seconds: float) -> str:
    """Return `2026-11-21 07:21:18` in the local zone, for seconds since the epoch; `not known` for impossible ones."""
    moment = _moment(seconds)
    return moment.strftime("%Y-%m-%d %H:%M:%S") if moment else NOT_KNOWN


def iso(seconds: float | None) -> str | None:
    """Return ISO 8601 with milliseconds and the local zone's offset; None for None, or if no calendar has it."""
    moment = None if seconds is None else _moment(seconds)
    return moment.isoformat(timespec="milliseconds") if moment else None


def _moment(seconds: float) -> dt.datetime | None:
    """Return a time in the local zone; None for one that no calendar has, from a garbled record."""
    try:
        return dt.datetime.fromtimestamp(seconds).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def duration(seconds: float | None) -> str:
    """Return `1m15s`; `-` for None, and `not known` if it ends before it begins, after a clock was changed."""
    if seconds is None:
        return "-"
    if seconds < -CLOCK_SECONDS:
        return NOT_KNOWN
    return format_duration(seconds if 0 <= seconds < 10 else round(max(seconds, 0.0)))


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return `rows` as lines with aligned columns, nothing cut: for files, pipes and `grep`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
