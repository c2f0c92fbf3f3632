"""The last lines that a replica printed, back to its last traceback: enough to say why it ended, in bounded memory."""

import collections
from collections.abc import Sequence

from tfsteps.runs.events import LogLines
from tfsteps.text.tracebacks import HEADER, is_chained

_RECENT = 40
_WIDTH = 1000  # bytes of a line
_MOST_LINES = 400  # since the traceback; a program that printed more after it went on, and ended for another reason
_MOST_BYTES = 64 << 10
_MARK = HEADER.encode()
_KEPT = 2  # incarnations whose last lines are at hand


class Tail:
    """Keeps the last lines of one incarnation of a replica."""

    def __init__(self) -> None:
        """Begin with none."""
        self._recent: collections.deque[bytes] = collections.deque(maxlen=_RECENT)
        self._traceback: list[bytes] = []
        self._room = 0  # bytes that `_traceback` may still take; 0 = there is none
        self._before = b""  # the last line that was not empty

    def add(self, texts: Sequence[bytes]) -> None:
        """Take lines that were printed after those before."""
        done = 0
        if _MARK in b"\n".join(texts):
            for place in [n for n, text in enumerate(texts) if text.rstrip().endswith(_MARK)]:
                self._go_on(texts[done:place])
                if not (self._traceback and is_chained(self._before.decode(errors="replace"))):
                    self._traceback, self._room = [], _MOST_BYTES
                done = place
        self._go_on(texts[done:])

    def lines(self) -> list[str]:
        """Return the last lines, from the last traceback on if one is near enough to the end."""
        kept = self._traceback if len(self._traceback) > len(self._recent) else self._recent
        return [text.decode(errors="replace") for text in kept]

    def _go_on(self, texts: Sequence[bytes]) -> None:
        if self._room:
            some = list(map(_cut, texts[: _MOST_LINES + 1]))
            self._traceback += some
            self._room -= sum(map(len, some))
            if self._room <= 0 or len(self._traceback) > _MOST_LINES:
                self._traceback, self._room = [], 0
        last = list(map(_cut, texts[-_RECENT:]))
        self._recent.extend(last)
        self._before = next((text for text in reversed(last) if text.strip()), self._before)


class Tails:
    """Keeps the last lines of the last two incarnations of each replica, and of its other containers."""

    def __init__(self) -> None:
        """Begin with none."""
        self._tails: dict[str, dict[int, Tail]] = {}  # by source and incarnation

    def add(self, lines: LogLines) -> None:
        """Take lines; those that name no incarnation are the newest one's."""
        tails = self._tails.setdefault(lines.source, {})
        newest = max(tails, default=0)
        number = newest if lines.incarnation is None else lines.incarnation
        tails.setdefault(number, Tail()).add(lines.texts)
        if len(tails) > _KEPT:
            del tails[min(tails)]

    def last_lines(self, source: str, incarnation: int) -> list[str]:
        """Return the last lines of one incarnation, from 0, of `worker-1` or of its container `worker-1/init-data`.

        Of a container beside the program, those up to that incarnation. Empty for one that printed nothing, or too
        long ago.
        """
        tails = self._tails.get(source, {})
        if "/" in source:  # an init container or a sidecar, which runs on while the program is started again
            incarnation = max((number for number in tails if number <= incarnation), default=0)
        tail = tails.get(incarnation)
        return tail.lines() if tail else []


def _cut(text: bytes) -> bytes:
    """Return a line's beginning, but of one that a progress bar left before a traceback its end."""
    return _MARK if len(text) > _WIDTH and text.rstrip().endswith(_MARK) else text[:_WIDTH]
