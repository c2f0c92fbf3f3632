"""What becomes of a job whose launcher was asked to stop in a pod: the job is stopped, or goes on without it."""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from tfsteps.answer import Answer
from tfsteps.systems.base import LaunchError

_PAUSE_SECONDS = 1.0


class Leave(msgspec.Struct, frozen=True):
    """Whether a job goes on without its launcher.

    Attributes:
        answer: Yes = it goes on; no = it is to be stopped.
        sentence: For yes, what follows for the job; for no, why it does not go on; empty = there is nothing to say.
    """

    answer: Answer
    sentence: str = ""


class Departure:
    """Decides whether the job goes on; what is not known is asked again within the grace period of the pod."""

    def __init__(self, ask: Callable[[Any, float], Leave], what: str, seconds: float) -> None:
        """Decide nothing yet.

        Args:
            ask: Asks the platform by the client that it gets; the number is the seconds since the signal.
            what: The job in messages: `TFJob ml/mnist`.
            seconds: How long to ask. A job of which it is still not known goes on.
        """
        self._ask, self._what, self._seconds = ask, what, seconds
        self._began = self._asked = 0.0
        self._hurried = False
        self.leave: Leave | None = None

    @property
    def pending(self) -> bool:
        """Whether the launcher was asked to stop, and it is not known yet what becomes of the job."""
        return self.leave is not None and not self.leave.answer.no

    def begin(self, client: Any) -> Leave:
        """Ask once, and return the answer. Safe in a signal handler, with a client that nothing else uses."""
        self._began = self._asked = time.monotonic()
        self.leave = self._ask(client, 0.0)
        return self.leave

    def hurry(self) -> None:
        """Ask once more, in a second: the launcher was asked to stop again. Safe in a signal handler.

        Engines repeat SIGTERM, and the first second does not show yet whether the pod is being evicted.
        """
        self._hurried = True

    def settle(self, client: Any) -> Leave:
        """Return the answer, which is no or not known yet; ask again when that is due.

        Raises:
            LaunchError: The job goes on, and this launcher ends.
        """
        assert self.leave
        now = time.monotonic()
        if self.leave.answer.unknown and now - self._asked >= _PAUSE_SECONDS:
            self.leave = self._ask(client, now - self._began)
            self._asked = time.monotonic()
        if self.leave.answer.yes:
            raise LaunchError(f"this pod is being evicted; {self.leave.sentence}", retryable=True)
        seconds = min(self._seconds, _PAUSE_SECONDS) if self._hurried else self._seconds
        if self.leave.answer.unknown and now - self._began >= seconds:
            why = f"whether it is being evicted, and another pod follows, is not known ({self.leave.answer.why})"
            raise LaunchError(f"this pod got SIGTERM, and {why}: {self._what} continues", retryable=True)
        return self.leave
