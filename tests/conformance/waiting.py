"""Waiting for what a cluster does in its own time."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def until(what: Callable[[], _T], seconds: float = 60.0) -> _T:
    """Wait until `what()` is true and return it; fail if it does not become so in time."""
    end = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)
    return value
