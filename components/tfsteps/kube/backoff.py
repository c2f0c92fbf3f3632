"""Pauses between retries: each twice as long as the one before, and spread, so that launchers do not retry together."""

import random
from collections.abc import Iterator

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
