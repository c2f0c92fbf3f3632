"""What a rank prints: from the platform's text to lines, each once and in order, and to what its agent tells.

The platform tells where to go on (`last_seen`), joins what all tasks of a chain printed, puts a time before each line,
and cuts lines after 4096 characters.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.systems.hai.ranks.wire import MARK

NOTHING_YET = "还没产生日志"
"""The platform's words in place of a log that is not there yet."""

_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\] ?")
_BAR, _IMAGE = "[HFAI_PRINT:TQDM]", "[HFAI_PRINT:IMAGE]"
Told = dict[str, Any]


class RankLog:
    """How far the log of one rank has been read.

    Attributes:
        last_seen: What to hand back to the platform; None = from the beginning.
        rest: What the last answer had of a line that has not ended yet; empty = nothing.
    """

    def __init__(self) -> None:
        """Begin before the first line."""
        self.last_seen: Mapping[str, Any] | None = None
        self.rest = b""
        self._known = 0  # lines of the next answer that were seen already

    def read(self, answer: Mapping[str, Any], *, whole: bool = False) -> Iterator[bytes | Told]:
        """Yield the new lines of an answer, and between them what the agent tells.

        A line that was still being written when the platform read it would never be told in full: it goes on behind it.
        So the place moves on only with an answer that ends with a line's end.

        Args:
            answer: Of the platform.
            whole: The rank has ended: what comes last is a line, too.
        """
        text = str(answer.get("data") or "")
        if text == NOTHING_YET:
            return
        *lines, rest = text.split("\n")
        self.rest = b"" if whole else _unfinished(rest)
        new = lines[self._known :]
        if whole or not rest:
            self._known = 0
            self.last_seen = answer.get("last_seen") or self.last_seen
            new += [rest] if rest else []
        else:
            self._known = len(lines)
        for line in new:
            yield from _parsed(line)


def _unfinished(line: str) -> bytes:
    stamp = _STAMP.match(line)
    return _plain((line[stamp.end() :] if stamp else line).partition(MARK)[0]).encode()


def _parsed(line: str) -> Iterator[bytes | Told]:
    """Yield the text of a line, what an agent tells by it, or both, one after the other."""
    stamp = _STAMP.match(line)
    text = (line[stamp.end() :] if stamp else line).removesuffix("\r")
    if not stamp and not text:
        return  # the platform puts it between the tasks of a chain
    before, mark, rest = text.partition(MARK)
    told = _told(rest) if mark else None
    if told is None:
        yield _plain(text).encode()
        return
    if before:
        yield _plain(before).encode()
    yield told


def _told(text: str) -> Told | None:
    """Return what an agent tells; None where somebody else wrote its mark."""
    try:
        return msgspec.json.decode(text, type=Told)
    except msgspec.DecodeError:
        return None


def _plain(text: str) -> str:
    if text.startswith(_IMAGE):
        return f"(an image of {len(text) - len(_IMAGE)} characters)"
    return text.removeprefix(_BAR)
