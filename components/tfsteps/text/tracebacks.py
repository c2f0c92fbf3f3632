"""The exception that ended a Python program, found in its last output: the line that explains it, and where."""

import re
from collections.abc import Iterator, Sequence

import msgspec

HEADER = "Traceback (most recent call last):"
_LINES = 20
_CONTEXT = 8  # lines of an excerpt before the line that explains
_FRAME = re.compile(r'^(?P<indent>\s+)File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>\S+)(?:\s+\*+)?\s*$')
_EXCEPTION = re.compile(r"^(?P<type>[^\W\d][\w.]*)(?::\s+(?P<message>.*)|:?)$")
_INNER = re.compile(r"^(?P<type>[\w.]*(?:Error|Exception|Exit|Interrupt)): (?P<message>.*)$")
_CHAINED = {
    "The above exception was the direct cause of the following exception:": "caused by",
    "During handling of the above exception, another exception occurred:": "while handling",
}
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|<frozen |/__autograph_generated_file")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
# Lines of other threads: of TensorFlow (`2026-11-21 07:21:18.1: E tensor...`, `E0000 00:00:17.1 ...`) or of logging.
_LOGGED = re.compile(r"^(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d|[IWEF]\d{4} \d\d:\d\d:\d\d|[A-Z]+:\S)")
# What TensorFlow and Keras put before the line that explains.
_WRAPPERS = re.compile(
    r"^(?:in user code:|Graph execution error:|Exception encountered when calling .*|\d+ root error\(s\) found\.?"
    r"|Detected at node .*|<stack traces unavailable>)?$"
)


class Raised(msgspec.Struct, frozen=True):
    """An exception, as people want to be told of it.

    Attributes:
        exception: Its type and the first line of its message that explains; what it was chained to. Empty = none.
        frame: The last frame of the user's own files, `train.py:41 in step`; empty = none is known.
        excerpt: At most 20 lines: the traceback's last ones around that line; without an exception, the last of all.
    """

    exception: str = ""
    frame: str = ""
    excerpt: list[str] = []


def raised(lines: Sequence[str]) -> Raised:
    """Return the exception of the last traceback in `lines`, which are the last ones of one process."""
    starts = [number for number, line in enumerate(lines) if is_header(line)]
    chain: list[tuple[str, str]] = []  # how it hangs on the exception that came later, and what it was
    frame, shown, link, end = "", 0, "", len(lines)
    for start in reversed(starts):
        exception, where, at = _one(lines[start + 1 : end])
        shown = shown or start + 1 + at
        chain += [(link, exception)] if exception and exception not in [text for _, text in chain] else []
        frame = frame or where
        link = _CHAINED.get(_before(lines[:start]), "")
        if not link:
            break
        end = start
    if not chain:
        return Raised(excerpt=list(lines[-_LINES:]))
    text = ", ".join(f"{how} {what}".strip() for how, what in chain)
    return Raised(text.rstrip(".: "), frame, _excerpt(lines, shown))


def is_header(line: str) -> bool:
    """Tell whether a traceback begins; what a progress bar left on the line before it does not matter."""
    return line.rstrip().endswith(HEADER)


def is_chained(line: str) -> bool:
    """Tell whether the traceback that follows belongs to the one before."""
    return line.strip() in _CHAINED


def _before(lines: Sequence[str]) -> str:
    """Return the last line that is not empty."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _one(block: Sequence[str]) -> tuple[str, str, int]:
    """Return the exception, the frame, and the place of the line that explains, of what follows a header."""
    plain = [_COLOUR.sub("", line.rstrip()) for line in block]
    first = _first(plain)
    if first is None:
        return "", _innermost(plain), max(len(plain) - 1, 0)
    match = _EXCEPTION.match(plain[first])
    kind, text, at = (match["type"], match["message"] or "", first) if match else ("", plain[first], first)
    for number, line in _explaining(plain, first + 1) if _WRAPPERS.match(text) else ():
        inner = _INNER.match(line)
        kind, message = (inner["type"], inner["message"]) if inner else (kind, line)
        if not _WRAPPERS.match(message):
            text, at = message, number
            break
    return f"{kind}: {text}" if kind and text else kind or text, _innermost(plain[: at + 1]), at


def _first(lines: Sequence[str]) -> int | None:
    """Return where the exception begins: the first line that is neither a frame's nor another thread's."""
    flush = [n for n, line in enumerate(lines) if line and not line[0].isspace() and not _LOGGED.match(line)]
    return next((n for n in flush if _EXCEPTION.match(lines[n])), flush[0] if flush else None)


def _explaining(lines: Sequence[str], start: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of a message that are neither empty nor a frame's, with their places."""
    indent = -1  # of the frame whose source line may follow
    for number, line in enumerate(lines[start:], start):
        if frame := _FRAME.match(line):
            indent = len(frame["indent"])
        elif line and not _LOGGED.match(line) and (indent < 0 or len(line) - len(line.lstrip()) <= indent):
            yield number, line.strip()


def _innermost(lines: Sequence[str]) -> str:
    frames = [match for line in lines if (match := _FRAME.match(line)) and not _LIBRARY.search(match["file"])]
    return f"{frames[-1]['file'].rpartition('/')[2]}:{frames[-1]['line']} in {frames[-1]['name']}" if frames else ""


def _excerpt(lines: Sequence[str], shown: int) -> list[str]:
    """Return the last lines, or those around the line `shown` if it comes earlier."""
    if len(lines) - shown + _CONTEXT <= _LINES:
        return list(lines[-_LINES:])
    start = max(shown - _CONTEXT, 0)
    return list(lines[start : start + _LINES])
