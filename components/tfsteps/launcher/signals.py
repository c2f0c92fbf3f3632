"""SIGTERM, Ctrl-C and a closed terminal, as one call, and the requests to stop a job that they make."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from tfsteps.runs.events import JobChanged
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems.base import Cause, Handle, System

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_NOTIFY_SECONDS, _NOTIFY_STOPPED_SECONDS, _NOTIFY_KILLED_SECONDS = 10.0, 2.0, 0.1
_CAUSES: dict[int, str] = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "SIGHUP: its terminal was closed",
}


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


class StopRequests:
    """Forwards stop requests to the job, including one that came before the job existed.

    Attributes:
        signals: The signals that came, in their order.
    """

    def __init__(self, system: System, attempt: AttemptFolder) -> None:
        """Forward to `system`, until there is a job. `attempt` is where `tfsteps stop` notes that it stops the job."""
        self.signals: list[int] = []
        self._requests = 0
        self._announced = False
        self._system = system
        self._attempt = attempt
        self._handle: Handle | None = None

    @property
    def requested(self) -> bool:
        """Whether a stop was requested."""
        return self._requests > 0

    @property
    def cause(self) -> str:
        """The command or the first signal, as messages call it; empty = there was none."""
        if self.signals and self.signals[0] == signal.SIGTERM and self._attempt.stop_requested:
            return "`tfsteps stop`"
        return _CAUSES.get(self.signals[0], "") if self.signals else ""

    def notify_seconds(self) -> float:
        """Return how many seconds the end of the step may wait for notifications. A pod that is stopped has no time."""
        if not self.signals:
            return _NOTIFY_SECONDS
        killed = signal.SIGTERM in self.signals and self._system.outlives_launcher
        return _NOTIFY_KILLED_SECONDS if killed else _NOTIFY_STOPPED_SECONDS

    def stop_message(self, status: Status) -> Iterator[JobChanged]:
        """Yield one message: the job is being stopped, why, and how to kill it."""
        if self._announced or not self.signals:
            return
        self._announced = True
        if self.signals[0] != signal.SIGTERM or not self._system.outlives_launcher:  # a pod's end may spare its job
            again = "Ctrl-C again" if self.signals[0] == signal.SIGINT else "a second signal"
            message = f"Stopping ({self.cause}); {again} kills the replicas."
            yield JobChanged(at=time.time(), state=status.state, reason="Stopping", message=message)

    def request(self) -> None:
        """Stop the job, or its start. Safe in a signal handler."""
        self._requests += 1
        if self._handle:
            self._handle.stop(self._cause)
        else:
            self._system.give_up()

    def attach(self, handle: Handle) -> None:
        """Forward to the job from now on."""
        self._handle = handle
        if self._requests:
            handle.stop(self._cause)

    @property
    def _cause(self) -> Cause:
        asked = signal.SIGINT in self.signals or self._attempt.stop_requested
        return Cause.INTERRUPTED if asked else Cause.CANCELLED
