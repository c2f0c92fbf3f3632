"""Lines for people on standard error."""

import contextlib
import contextvars
import sys
from collections.abc import Iterator

from tfsteps.text.terminal import escaped

_collected: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("collected", default=None)


@contextlib.contextmanager
def collected() -> Iterator[list[str]]:
    """Yield a list that gets what this thread says in the block, in place of standard error."""
    lines: list[str] = []
    token = _collected.set(lines)
    try:
        yield lines
    finally:
        _collected.reset(token)


def say(text: str) -> None:
    """Print text to standard error, control characters escaped: it may name an object of somebody else.

    If standard error is closed, only the exit code reports the outcome.
    """
    if (lines := _collected.get()) is not None:
        lines.append(text)
        return
    with contextlib.suppress(OSError):
        print(escaped(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    say(f"warning: {text}")
