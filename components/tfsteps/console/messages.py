"""Lines for people on standard error."""

import contextlib
import sys

from tfsteps.text.terminal import escaped


def say(text: str) -> None:
    """Print text to standard error, control characters escaped: it may name an object of somebody else.

    If standard error is closed, only the exit code reports the outcome.
    """
    with contextlib.suppress(OSError):
        print(escaped(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    say(f"warning: {text}")
