"""Lines for people on standard error."""

import contextlib
import sys


def say(text: str) -> None:
    """Print a line to standard error; a closed terminal is not an error: the exit code still tells."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    say(f"warning: {text}")
