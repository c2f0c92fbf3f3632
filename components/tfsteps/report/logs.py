"""The last log lines of each replica, shortened for a page."""

import pathlib
import re
from collections.abc import Collection, Iterator, Sequence

import msgspec

from tfsteps.runs.log_file import gap_text, segments

_READ = 256 << 20  # bytes; lines before the last ones of a longer log are not looked for
_BLOCK = 1 << 20
_FEW = 8  # so few replicas are searched for in a block before its lines are split
_LINES = 400  # of one replica
_WIDTH = 500  # characters of a line
_CHARACTERS = 800_000  # in the whole report
_FEWEST = 2_000  # characters of one replica
_HEAD = 20  # characters of a line that its time needs
_SHARE = 4  # one part in so many is for init containers and sidecars, if the program needs the rest

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")


class ReportLine(msgspec.Struct, frozen=True):
    """One log line.

    Attributes:
        at: Time of day, UTC, `12:00:05.123`.
        text: Text without colours; a longer line is cut and marked.
    """

    at: str
    text: str


class LogTail(msgspec.Struct, frozen=True):
    """The end of one replica's log.

    Attributes:
        lines: The last lines, in order; empty = it printed nothing, or its lines are too far from the end of the file.
        earlier: Whether there are earlier lines.
    """

    lines: list[ReportLine] = []
    earlier: bool = False


def tails(log: pathlib.Path, replicas: Collection[str]) -> dict[str, LogTail]:
    """Return the end of the log of each replica, by name; without lines if there is no log file.

    The program of a replica comes first: its init containers and sidecars share what it leaves, or a quarter.
    """
    kept = {name: _ReplicaTail(name) for name in replicas}
    whole = _collect(log, kept)
    room = max(_CHARACTERS // max(len(kept), 1), _FEWEST)
    return {name: replica.tail(room, whole=whole) for name, replica in kept.items()}


def plain(text: str) -> str:
    """Return the text that a terminal would show of a line: without colours, after the last carriage return."""
    line = _ANSI.sub("", text).replace("\b", "")
    return line.rstrip("\r").rpartition("\r")[2]


class _ReplicaTail:
    """The last lines of a replica, collected from the last to the first, by container."""

    def __init__(self, name: str) -> None:
        self.source = name.encode()
        self._lines: dict[bytes, list[tuple[int, bytes, bytes]]] = {b"": []}  # position, time, text; the newest first
        self._dropped: set[bytes] = set()  # containers with more lines than are kept
        self.complete = False  # earlier lines of the program are not needed

    def add(self, container: bytes, line: tuple[int, bytes, bytes]) -> None:
        lines = self._lines.setdefault(container, [])
        if len(lines) < _LINES:
            lines.append(line)
        else:
            self._dropped.add(container)
            self.complete = self.complete or not container

    def tail(self, room: int, *, whole: bool) -> LogTail:
        """Return as many of the last lines as fit in `room` characters; `whole` = earlier lines were looked for."""
        program, *others = [_fitted(container, lines) for container, lines in self._lines.items()]
        used = sum(map(_size, others))
        reserved = min(used, room // _SHARE), min(sum(map(len, others)), _LINES // _SHARE)
        chosen = _first(program, room - reserved[0], _LINES - reserved[1])
        left, left_lines = room - _size(chosen), _LINES - len(chosen)
        for rest, lines in zip(range(len(others), 0, -1), sorted(others, key=_size), strict=True):
            shown = _first(lines, left // rest, left_lines // rest)
            left, left_lines = left - _size(shown), left_lines - len(shown)
            chosen = chosen + shown
        cut = bool(self._dropped) or len(chosen) < sum(map(len, self._lines.values()))
        return LogTail([line for _, line in sorted(chosen, key=lambda item: -item[0])], earlier=cut or not whole)


def _fitted(container: bytes, lines: Sequence[tuple[int, bytes, bytes]]) -> list[tuple[int, ReportLine]]:
    """Return lines as they are shown, with their positions."""
    prefix = f"[{container.decode(errors='replace')}] " if container else ""
    fitted = []
    for position, at, text in lines:
        shown = prefix + plain(text.decode(errors="replace"))
        shown = shown if len(shown) <= _WIDTH else f"{shown[:_WIDTH]} … (line cut)"
        fitted.append((position, ReportLine(at.decode(errors="replace")[11:23], shown)))
    return fitted


def _size(lines: Sequence[tuple[int, ReportLine]]) -> int:
    return sum(len(line.text) + _HEAD for _, line in lines)


def _first(lines: Sequence[tuple[int, ReportLine]], room: int, most: int) -> list[tuple[int, ReportLine]]:
    """Return the first of `lines` that fit in `room` characters, at most `most`, but at least one."""
    chosen: list[tuple[int, ReportLine]] = []
    for item in lines[: max(most, 1)]:
        room -= len(item[1].text) + _HEAD
        if room < 0 and chosen:
            break
        chosen.append(item)
    return chosen


def _collect(log: pathlib.Path, replicas: dict[str, _ReplicaTail]) -> bool:
    """Read the log backwards until each program has its lines; return False if earlier lines were not looked for."""
    incomplete = {replica.source: replica for replica in replicas.values()}
    position, left = 0, _READ
    for block in _blocks(log):
        if isinstance(block, str):  # lines of any replica were dropped here
            for replica in incomplete.values():
                replica.add(b"", (position, b"", block.encode()))
            position += 1
            continue
        if left <= 0 or not incomplete:
            return False
        if len(incomplete) > _FEW or any(b" " + source in block for source in incomplete):
            for number, line in enumerate(reversed(block.split(b"\n"))):
                parts = line.split(b" ", 2)
                if len(parts) != 3:  # damaged by a full disk
                    continue
                source, _, container = parts[1].partition(b"/")
                if source in incomplete:
                    incomplete[source].add(container, (position + number, parts[0], parts[2][: 8 * _WIDTH]))
            incomplete = {source: replica for source, replica in incomplete.items() if not replica.complete}
        left, position = left - len(block), position + len(block)
    return True


def _blocks(log: pathlib.Path) -> Iterator[bytes | str]:
    """Yield whole lines from the end of a log to its start, in blocks; where lines were dropped, a text about that."""
    last = segments(log)
    for segment in reversed(last):
        yield from _backwards(segment.path)
    if last and last[0].offset:
        yield gap_text(last[0].lines, last[0].offset).decode()
    yield from _backwards(log)


def _backwards(path: pathlib.Path) -> Iterator[bytes]:
    """Yield the lines of a file in blocks of at least `_BLOCK` bytes, the last one first; nothing if it is missing."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        end = file.seek(0, 2)
        parts: list[bytes] = []  # of a line that began in an earlier block, the last one first
        while end:
            start = max(0, end - _BLOCK)
            file.seek(start)
            block = file.read(end - start)
            cut = block.find(b"\n") if start else -1
            if start and cut < 0 and len(parts) * _BLOCK < _READ:
                parts.append(block)
            else:
                yield block[cut + 1 :] + b"".join(reversed(parts))
                parts = [block[: cut + 1]]
            end = start
