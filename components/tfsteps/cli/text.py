"""Times, durations and foreign text, as people read them."""

import datetime as dt
import re
from collections.abc import Sequence

from tfsteps.spec import format_duration

_MAX_LINE = 2000  # characters of a log line that a terminal is asked to show
# CSI sequences (colours, cursor), OSC sequences (titles, links), and any other escape.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text: str | bytes) -> str:
    """Return one line of foreign text that is safe to show: no escape sequences, no control characters, cut if long.

    Of a line that was drawn over itself by carriage returns, as progress bars are, the last state counts.
    """
    if isinstance(text, bytes):
        text = text[: 4 * _MAX_LINE].decode(errors="replace") if b"\r" not in text else text.decode(errors="replace")
    shown = next((part for part in reversed(text.split("\r")) if part), "")
    shown = _CONTROL.sub("", _ESCAPES.sub("", shown)).replace("\t", "    ")
    return shown if len(shown) <= _MAX_LINE else f"{shown[:_MAX_LINE]}… (cut)"


def local_time(seconds: float) -> str:
    """Return `2026-11-21 07:21:18` in the local zone, for seconds since the epoch."""
    return dt.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def iso(seconds: float | None) -> str | None:
    """Return ISO 8601 with milliseconds and the local zone's offset; None for None."""
    return (
        None if seconds is None else dt.datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")
    )


def duration(seconds: float | None) -> str:
    """Return `1m15s`; `-` for None."""
    if seconds is None:
        return "-"
    return format_duration(seconds if 0 <= seconds < 10 else round(max(seconds, 0.0)))


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return `rows` as lines with aligned columns, nothing cut: for files, pipes and `grep`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
