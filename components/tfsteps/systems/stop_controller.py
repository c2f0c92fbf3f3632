"""How a launcher ends a job that lives on a platform: it asks until the end has come, or is denied for too long."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfsteps.kube.errors import ApiError
from tfsteps.systems.base import Cause, LaunchError

_AGAIN_SECONDS = 5.0
_DENIALS = {401, 403}  # a restarting server sends them, too, but not for long


class StopController:
    """The state of a stop, which a signal handler may begin and the launcher's loop goes on with.

    Attributes:
        cause: Why the job is being stopped; None = it is not.
        requests: How often people or engines have asked for it.
    """

    def __init__(
        self,
        send: Callable[[Any], object],
        what: str,
        denied_seconds: Mapping[Cause, float],
        *,
        grace_seconds: float = math.inf,
    ) -> None:
        """Begin without a stop.

        Args:
            send: Asks the platform once, by the client that it gets. ApiError if it denies that, or does not answer.
            what: Begins the error: `TFJob ml/mnist continues: it could not be deleted`.
            denied_seconds: For how long a denied stop is retried, by its cause: permissions may come late.
            grace_seconds: For how long a cancellation without an answer is retried: this process is killed then.
        """
        self.cause: Cause | None = None
        self.requests = 0
        self._send, self._what, self._denied_seconds = send, what, denied_seconds
        self._grace_seconds = grace_seconds
        self._sent = 0.0
        self._error: ApiError | None = None  # of the last request
        self._failing_since = self._denied_since = math.inf

    @property
    def hurried(self) -> bool:
        """Whether the stop was asked for more than once: its end is not waited for."""
        return self.requests > 1

    def begin(self, cause: Cause, client: Any) -> None:
        """Stop the job for a cause. Safe in a signal handler, with a client that nothing else uses."""
        self.cause = cause
        self._ask(client)

    def look_after(self, client: Any) -> None:
        """Ask again when it is time. LaunchError once the platform has not accepted it for too long."""
        if self.cause is None:
            return
        now, grace = time.monotonic(), self._grace_seconds if self.cause is Cause.CANCELLED else math.inf
        if now - self._denied_since > self._denied_seconds[self.cause] or now - self._failing_since > grace:
            raise LaunchError(f"{self._what}: {self._error}", retryable=True)
        if now - self._sent > _AGAIN_SECONDS:
            self._ask(client)

    def _ask(self, client: Any) -> None:
        self._sent = time.monotonic()  # for the loop, which a signal handler may have interrupted
        try:
            self._send(client)
            self._error = None
        except ApiError as error:
            self._error = error
        self._sent = time.monotonic()
        denied = self._error and (self._error.status in _DENIALS or not self._error.unavailable)
        self._failing_since = min(self._failing_since, self._sent) if self._error else math.inf
        self._denied_since = min(self._denied_since, self._sent) if denied else math.inf


class ServerAge:
    """How old a job was when it was first followed, by the platform's clock alone: ours may differ by hours."""

    _ROUNDING_SECONDS = 2.0  # platforms tell times in whole seconds

    def __init__(self) -> None:
        """Begin at the moment from which the job is followed."""
        self._began = time.monotonic()
        self._age: float | None = None

    def seconds(self, created: float | None, now: float | None) -> float:
        """Return the age; 0 until both times are known, and from then on always the same.

        Args:
            created: When the job was created, by the platform's clock; None = not known yet.
            now: What that clock shows now; None = not known yet.
        """
        if self._age is None and created is not None and now is not None:
            self._age = max(0.0, now - created - (time.monotonic() - self._began) - self._ROUNDING_SECONDS)
        return self._age or 0.0
