"""Finds the exception that ended a Python program in its last output: the message that explains it, and the frame."""

import re
from collections.abc import Iterator, Sequence

import msgspec

HEADER = "Traceback (most recent call last):"
_LINES = 20
_WIDTH = 300  # characters of an exception, from which on further lines are left out
_CONTEXT = 8  # lines of an excerpt before the explaining line
FATAL = "Fatal Python error: "
"""How the message begins that Python prints after a fatal signal, if its faulthandler is enabled."""

STACK = "(stack at the deadline)"
"""The line before the stacks that a program prints when a deadline has passed."""

# Patterns are text, compiled at the first use: the start of each command loads this module, and few need them.
# `, in f` after a line is missing in a SyntaxError; faulthandler writes ` in f`.
_FRAME = r'^(?P<indent>\s+)File "(?P<file>.+)", line (?P<line>\d+)(?:,? in (?P<name>\S+)(?:\s+\*+)?)?\s*$'
_SYNTAX = r"^(?:SyntaxError|IndentationError|TabError): "
_SYNTAX_LINES = 5  # place, source, marks, and the exception
# What the interpreter or the shell of the command prints if there is no program to run.
_NO_PROGRAM = (
    r"^\S*python[\d.]*: (?P<python>can't (?:open|find) .*|No module named .*)"
    r"|^\S*: (?:\d+: |line \d+: )?exec: "
    r"(?P<shell>.+: (?:not found|Permission denied|Argument list too long|cannot execute.*))"
)
_STACK = r"^(?:Current thread|Thread) 0x[\da-f]+ .*\(most recent call first\):"
_EXCEPTION = r"^(?P<type>[^\W\d][\w.]*)(?::\s+(?P<message>.*)|:?)$"
_INNER = r"^(?P<type>[\w.]*(?:Error|Exception|Exit|Interrupt)): (?P<message>.*)$"
_CHAINED = {
    "The above exception was the direct cause of the following exception:": "caused by",
    "During handling of the above exception, another exception occurred:": "while handling",
}
_LIBRARY = (
    r"site-packages|dist-packages|/lib/python\d|<frozen |/__autograph_generated_file|/tfsteps/systems/local/startup/"
)
_COLOUR = r"\x1b\[[\d;]*m"
# Log lines of other threads: TensorFlow (`2026-11-21 07:21:18.1: E tensor...`, `E0000 00:00:17.1 ...`) or `logging`.
_LOGGED = r"^(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d|[IWEF]\d{4} \d\d:\d\d:\d\d|[A-Z]+:\S)"
# Lines that TensorFlow and Keras print before the explaining line.
_WRAPPERS = (
    r"^(?:in user code:|Graph execution error:|Exception encountered when calling .*|\d+ root error\(s\) found\.?"
    r"|Detected at node .*|<stack traces unavailable>)?$"
)


def unexpected(error: BaseException) -> str:
    """Return one line about an exception of tfsteps that nothing expects: its type, message and place."""
    at, place = error.__traceback__, ""
    while at:
        if "/tfsteps/" in at.tb_frame.f_code.co_filename:
            file = at.tb_frame.f_code.co_filename.rpartition("/tfsteps/")[2]
            place = f" (at {file}:{at.tb_lineno})"
        at = at.tb_next
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


class Raised(msgspec.Struct, frozen=True):
    """A summary of an exception.

    Attributes:
        exception: Its type, the explaining line of its message, and the chained exceptions; empty = none was found.
        frame: The last frame in the user's own files, `train.py:41 in step`; empty = not known.
        excerpt: At most 20 lines: the end of the traceback around the explaining line; without an exception, the last
            lines of the output.
    """

    exception: str = ""
    frame: str = ""
    excerpt: list[str] = []


def raised(lines: Sequence[str]) -> Raised:
    """Return the exception of the last traceback in `lines`, the last output lines of one process."""
    # a header may follow a progress bar on the same line
    starts = [number for number, line in enumerate(lines) if line.rstrip().endswith(HEADER)]
    if bare := _without_header(lines, starts[-1] if starts else -1):
        return bare
    chain: list[tuple[str, str]] = []  # (relation to the later exception, exception), the last one first
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
    text = ", ".join(f"{relation} {exception}".strip() for relation, exception in chain)
    return Raised(text.rstrip(".: "), frame, _excerpt(lines, shown))


def _without_header(lines: Sequence[str], header: int) -> Raised | None:
    """Return why a program ended that printed no traceback header; None = there is none, or `header` is the last."""
    fatal = next((n for n in range(len(lines) - 1, header, -1) if lines[n].startswith(FATAL)), None)
    if fatal is not None:
        stack = innermost_call(lines[fatal + 1 :])
        return Raised(lines[fatal].strip(), stack, list(lines[fatal : fatal + _LINES]))
    plain = [re.sub(_COLOUR, "", line.rstrip()) for line in lines]
    last = next((n for n in range(len(plain) - 1, header, -1) if plain[n]), -1)
    if last < 0:
        return None
    if match := re.match(_NO_PROGRAM, plain[last]):
        return Raised(match["python"] or match["shell"], "", list(lines[-_LINES:]))
    end = next((n for n in range(last, header, -1) if re.match(_SYNTAX, plain[n])), None)
    if end is None:
        return None
    place = next((n for n in range(end - 1, max(end - _SYNTAX_LINES, -1), -1) if re.match(_FRAME, plain[n])), None)
    if place is None or (header >= 0 and all(text.startswith(" ") for text in plain[header + 1 : place])):
        return None  # it is in a file that the program imports: the traceback has more
    return Raised(plain[end].rstrip(".: "), _innermost(plain[place : place + 1]), _excerpt(lines, end))


def innermost_call(lines: Sequence[str]) -> str:
    """Return the innermost call in the user's own files, of a stack as `faulthandler` prints it; empty = none.

    It is that of the thread that ran Python when a fatal signal came, else of the main thread, which is printed last.
    """
    return _innermost([*reversed(_thread(lines))])


def _thread(lines: Sequence[str]) -> list[str]:
    """Return the frames of that thread, the innermost first."""
    threads: list[list[str]] = []
    current = None
    for line in lines:
        if re.match(_STACK, line):
            threads.append([])
            current = threads[-1] if line.startswith("Current") else current
        elif threads and re.match(_FRAME, line):
            threads[-1].append(line)
    return current if current is not None else threads[-1] if threads else []


def stack(lines: Sequence[str]) -> Raised:
    """Return the innermost call of the stack that was printed at a deadline; without a stack, the last lines."""
    start = next((n for n in range(len(lines) - 1, -1, -1) if lines[n].startswith(STACK)), None)
    if start is None:
        return Raised(excerpt=list(lines[-_LINES:]))
    chosen = _thread(lines[start + 1 :])
    return Raised("", innermost_call(lines[start + 1 :]), chosen[:_LINES])


def is_chained(line: str) -> bool:
    """Return whether a line connects two chained tracebacks."""
    return line.strip() in _CHAINED


def _before(lines: Sequence[str]) -> str:
    """Return the last line that is not empty."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _one(block: Sequence[str]) -> tuple[str, str, int]:
    """Return (exception, frame, index of the explaining line) of the lines that follow a header."""
    plain = [re.sub(_COLOUR, "", line.rstrip()) for line in block]
    first = _first(plain)
    if first is None:
        return "", _innermost(plain), max(len(plain) - 1, 0)
    match = re.match(_EXCEPTION, plain[first])
    kind, text, at = (match["type"], match["message"] or "", first) if match else ("", plain[first], first)
    for number, line in _explaining(plain, first + 1) if re.match(_WRAPPERS, text) else ():
        inner = re.match(_INNER, line)
        kind, message = (inner["type"], inner["message"]) if inner else (kind, line)
        if not re.match(_WRAPPERS, message):
            text, at = message, number
            break
    text = _whole(text, plain[at + 1 :])
    return f"{kind}: {text}" if kind and text else kind or text, _innermost(plain[: at + 1]), at


def _whole(text: str, rest: Sequence[str]) -> str:
    """Return a message with its next lines, as long as brackets are open."""
    for line in rest:
        if len(text) > _WIDTH or sum(map(text.count, "([{")) <= sum(map(text.count, ")]}")):
            break
        text = f"{text} {line.strip()}"
    return text


def _first(lines: Sequence[str]) -> int | None:
    """Return the index of the exception's first line: the first that belongs to no frame and to no other thread."""
    flush = [n for n, line in enumerate(lines) if line and not line[0].isspace() and not re.match(_LOGGED, line)]
    return next((n for n in flush if re.match(_EXCEPTION, lines[n])), flush[0] if flush else None)


def _explaining(lines: Sequence[str], start: int) -> Iterator[tuple[int, str]]:
    """Yield (index, line) of the lines of a message that are not empty and do not belong to a frame."""
    indent = -1  # indent of the last frame; its source line may follow
    for number, line in enumerate(lines[start:], start):
        if frame := re.match(_FRAME, line):
            indent = len(frame["indent"])
        elif line and not re.match(_LOGGED, line) and (indent < 0 or len(line) - len(line.lstrip()) <= indent):
            yield number, line.strip()


def _innermost(lines: Sequence[str]) -> str:
    frames = [match for line in lines if (match := re.match(_FRAME, line)) and not re.search(_LIBRARY, match["file"])]
    if not frames:
        return ""
    place = f"{frames[-1]['file'].rpartition('/')[2]}:{frames[-1]['line']}"
    return f"{place} in {frames[-1]['name']}" if frames[-1]["name"] else place


def _excerpt(lines: Sequence[str], shown: int) -> list[str]:
    """Return the last lines, or the lines around the index `shown` if it is further from the end."""
    if len(lines) - shown + _CONTEXT <= _LINES:
        return list(lines[-_LINES:])
    start = max(shown - _CONTEXT, 0)
    return list(lines[start : start + _LINES])
