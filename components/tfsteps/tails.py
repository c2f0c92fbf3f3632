"""The last lines that a replica printed, back to its last traceback: enough to say why it ended, in bounded memory."""

import collections
from collections.abc import Sequence

from tfsteps.tracebacks import HEADER, is_chained

_RECENT = 40
_WIDTH = 1000  # bytes of a line
_MOST_LINES = 400  # since the traceback; a program that printed more after it went on, and ended for another reason
_MOST_BYTES = 64 << 10
_MARK = HEADER.encode()


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


def _cut(text: bytes) -> bytes:
    """Return a line's beginning, but of one that a progress bar left before a traceback its end."""
    return _MARK if len(text) > _WIDTH and text.rstrip().endswith(_MARK) else text[:_WIDTH]
