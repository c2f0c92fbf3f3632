"""Keeps the last lines of a replica, back to its last traceback, in bounded memory, to explain why it ended."""

import collections
from collections.abc import Sequence

from tfsteps.text.tracebacks import FATAL, HEADER, STACK, is_chained

_RECENT = 40
_WIDTH = 1000  # bytes of a line
_MOST_LINES = 400  # from the traceback on; a program that prints more survived that exception
_MOST_BYTES = 64 << 10
_MARK, _STACKS = HEADER.encode(), (FATAL.encode(), STACK.encode())


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


def _cut(text: bytes) -> bytes:
    """Return the start of a line, or only the traceback header if a long line, such as a progress bar, ends with it."""
    return _MARK if len(text) > _WIDTH and text.rstrip().endswith(_MARK) else text[:_WIDTH]
