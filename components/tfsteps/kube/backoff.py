"""Pauses between retries, and the flag that ends them.

Each pause is twice as long as the one before, and spread, so that launchers do not retry together.
"""

import random
import time
from collections.abc import Iterator

COMMAND_PATIENCE_SECONDS = 5.0
"""How long a command repeats a request that has no valid answer; short, because a user waits at the terminal."""

_SLICE_SECONDS = 0.1
_RANDOM = random.Random()  # noqa: S311  no secret; apart from the generator that programs may seed


def spread(seconds: float, share: float = 0.5) -> float:
    """Return about `seconds`: by at most this share of it more or less."""
    return seconds * _RANDOM.uniform(1 - share, 1 + share)


def pauses(first: float, longest: float) -> Iterator[float]:
    """Yield pauses in seconds, without end: `first`, twice that, ... up to `longest`. They are not spread yet."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)


class StopFlag:
    """A flag to wait for that a signal handler can set. An Event cannot: its lock may be held when the signal comes."""

    def __init__(self) -> None:
        """Create the flag, not set."""
        self._set = False

    def set(self) -> None:
        """Set the flag; it is never cleared."""
        self._set = True

    def is_set(self) -> bool:
        """Tell whether the flag is set."""
        return self._set

    def wait(self, seconds: float) -> bool:
        """Wait until the flag is set, at most `seconds`; tell whether it is set."""
        end = time.monotonic() + seconds
        while not self._set and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))
        return self._set
