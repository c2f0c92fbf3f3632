"""Lines for people on standard error."""

import contextlib
import sys


def say(text: str) -> None:
    """Print a line to standard error. If that is closed, only the exit code reports the outcome."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    say(f"warning: {text}")
