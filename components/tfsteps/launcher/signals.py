"""SIGTERM, Ctrl-C and a closed terminal, as one call."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def ignore_termination() -> None:
    """Ignore SIGTERM, SIGINT and SIGHUP from now on: for a step that only has to record its job's status."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


class Terminated(BaseException):
    """SIGTERM came at a time at which nothing else handles it."""


@contextlib.contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Raise Terminated for a SIGTERM within the block, unless it is ignored or `on_termination` handles it.

    Outside the main thread no handler can be set: nothing changes.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def handler(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def on_termination(
    stop: Callable[[], object], came: list[int] | None = None, *, leaves: bool = False
) -> Iterator[None]:
    """Call `stop` for every SIGTERM, SIGINT and SIGHUP within the block, from the signal handler, and nothing else.

    The signals' numbers are appended to `came` before. With `leaves`, SIGINT and SIGHUP raise KeyboardInterrupt
    instead. A signal that is ignored already (`nohup`) stays so. Outside the main thread no handler can be set: nothing
    changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, _frame: FrameType | None) -> None:
        if came is not None:
            came.append(number)
        stop()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, old in before.items():
        if old is not signal.SIG_IGN:
            left = leaves and number != signal.SIGTERM
            signal.signal(number, signal.default_int_handler if left else handler)
    try:
        yield
    finally:
        for number, old in before.items():
            if old is not None:  # None: not set from Python, which cannot restore it
                signal.signal(number, old)
