"""Keeps the last lines of each replica, back to its last traceback, in bounded memory, to explain why it ended."""

import collections
from collections.abc import Sequence

from tfsteps.runs.events import LogLines
from tfsteps.text.tracebacks import FATAL, HEADER, STACK, is_chained

_RECENT = 40
_WIDTH = 1000  # bytes of a line
_MOST_LINES = 400  # from the traceback on; a program that prints more survived that exception
_MOST_BYTES = 64 << 10
_MARK, _STACKS = HEADER.encode(), (FATAL.encode(), STACK.encode())
_KEPT = 2  # incarnations of a replica


class LastLines:
    """Keeps the last lines of one incarnation of a replica."""

    def __init__(self) -> None:
        """Start without lines."""
        self._recent: collections.deque[bytes] = collections.deque(maxlen=_RECENT)
        self._traceback: list[bytes] = []
        self._room = 0  # free bytes of `_traceback`; 0 = no traceback is kept
        self._before = b""  # the last line that was not empty

    def add(self, texts: Sequence[bytes]) -> None:
        """Add the next lines, in the order in which they were printed."""
        start = 0
        joined = b"\n".join(texts)
        if _MARK in joined or any(mark in joined for mark in _STACKS):
            starts = [n for n, t in enumerate(texts) if t.rstrip().endswith(_MARK) or t.startswith(_STACKS)]
            for place in starts:
                self._append(texts[start:place])
                if not (self._traceback and is_chained(self._before.decode(errors="replace"))):
                    self._traceback, self._room = [], _MOST_BYTES
                start = place
        self._append(texts[start:])

    def lines(self) -> list[str]:
        """Return the last lines, from the last traceback on if at most 400 lines and 64 KiB follow its header."""
        lines = self._traceback if len(self._traceback) > len(self._recent) else self._recent
        return [text.decode(errors="replace") for text in lines]

    def _append(self, texts: Sequence[bytes]) -> None:
        if self._room:
            lines = list(map(_cut, texts[: _MOST_LINES + 1]))
            self._traceback += lines
            self._room -= sum(map(len, lines))
            if self._room <= 0 or len(self._traceback) > _MOST_LINES:
                self._traceback, self._room = [], 0
        last = list(map(_cut, texts[-_RECENT:]))
        self._recent.extend(last)
        self._before = next((text for text in reversed(last) if text.strip()), self._before)


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


def _cut(text: bytes) -> bytes:
    """Return the start of a line, or only the traceback header if a long line, such as a progress bar, ends with it."""
    return _MARK if len(text) > _WIDTH and text.rstrip().endswith(_MARK) else text[:_WIDTH]
