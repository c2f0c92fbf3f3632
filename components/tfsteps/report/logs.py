"""The last log lines of each replica, shortened for a page."""

import collections
import pathlib
import re
from collections.abc import Collection, Iterator, Sequence

import msgspec

from tfsteps.runs.log_segments import gap_text, segments

_READ = 32 << 20  # bytes; only the end of a longer log file is read
_LINES = 200
_WIDTH = 500
_CHARACTERS = 200_000  # in the whole report
_FEWEST = 2_000

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")


class Line(msgspec.Struct, frozen=True):
    """One log line.

    Attributes:
        at: Time of day, UTC, `12:00:05.123`.
        text: Text without colours; a longer line is cut and marked.
    """

    at: str
    text: str


class Tail(msgspec.Struct, frozen=True):
    """The end of one replica's log.

    Attributes:
        lines: The last lines, in order; empty = it printed nothing, or its lines are too far from the end of the file.
        earlier: Whether there are earlier lines.
    """

    lines: list[Line] = []
    earlier: bool = False


def tails(log: pathlib.Path, replicas: Collection[str]) -> dict[str, Tail]:
    """Return the end of the log of each replica, by name; without lines if there is no log file."""
    kept: dict[str, collections.deque[tuple[bytes, bytes]]] = {
        name: collections.deque(maxlen=_LINES) for name in replicas
    }
    seen: collections.Counter[str] = collections.Counter()
    whole = True
    try:
        whole, lines = _end(log)
        for stamp, name, text in lines:
            if not name:  # lines of any replica were dropped here
                for replica, tail in kept.items():
                    tail.append((stamp, text))
                    seen[replica] += 1
                continue
            replica, _, container = name.partition("/")
            if replica in kept:
                prefix = f"[{container}] ".encode() if container else b""
                kept[replica].append((stamp, prefix + text[: 8 * _WIDTH]))
                seen[replica] += 1
    except FileNotFoundError:
        pass
    room = max(_CHARACTERS // max(len(kept), 1), _FEWEST)
    return {name: _fitting(lines, room, seen[name], whole=whole) for name, lines in kept.items()}


def plain(text: str) -> str:
    """Return the text that a terminal would show of a line: without colours, after the last carriage return."""
    line = _ANSI.sub("", text).replace("\b", "")
    return line.rstrip("\r").rpartition("\r")[2]


def _end(log: pathlib.Path) -> tuple[bool, Iterator[tuple[bytes, str, bytes]]]:
    """Return whether the log is read as a whole, and (time stamp, source, text) of the lines at its end.

    Where lines were dropped, the time stamp and the source are empty.
    """
    last = segments(log)
    paths = [log, *[segment.path for segment in last]]
    sizes = [path.stat().st_size for path in paths]
    gap = gap_text(last[0].lines, last[0].offset) if last and last[0].offset else b""

    def lines() -> Iterator[tuple[bytes, str, bytes]]:
        for position, path in enumerate(paths):
            room = _READ - sum(sizes[position + 1 :])
            if room > 0:
                yield from _lines(path, room)
                if gap and position == 0:
                    yield b"", "", gap

    return sum(sizes) <= _READ, lines()


def _lines(path: pathlib.Path, room: int) -> Iterator[tuple[bytes, str, bytes]]:
    """Yield the lines in the last `room` bytes of a file; skip lines damaged by a full disk."""
    with path.open("rb") as file:
        start = file.seek(0, 2) - room
        file.seek(max(start, 0))
        if start > 0:
            file.readline()
        for line in file:
            parts = line.rstrip(b"\n").split(b" ", 2)
            if len(parts) == 3:
                yield parts[0], parts[1].decode(errors="replace"), parts[2]


def _fitting(lines: Sequence[tuple[bytes, bytes]], room: int, seen: int, *, whole: bool) -> Tail:
    """Return as many of the last `lines` as fit in `room` characters."""
    fitting: list[Line] = []
    for stamp, text in reversed(lines):
        line = Line(stamp.decode(errors="replace")[11:23], _cut(plain(text.decode(errors="replace"))))
        room -= len(line.text) + 20
        if room < 0 and fitting:
            break
        fitting.append(line)
    return Tail(fitting[::-1], earlier=not whole or seen > len(fitting))


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]} … (line cut)"
