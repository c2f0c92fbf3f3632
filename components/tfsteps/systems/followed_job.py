"""The loop of a launcher with a job that lives on a platform: from the takeover to the end, whatever the platform."""

import abc
import contextlib
import functools
import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from tfsteps.kube.answers import MALFORMED
from tfsteps.runs.events import Event, JobChanged, State, Verdict
from tfsteps.systems.base import Cause, LaunchError
from tfsteps.systems.launcher_pod import LauncherPod
from tfsteps.systems.stop_controller import Clients, Detachment, StopController, Stoppable


class JobTracker(Protocol):
    """Turns what a platform tells of a job into its events. It has no connection."""

    final: JobChanged | None
    """The end of the job; None = it has not ended, as far as is known."""

    def stop(self, verdict: Verdict) -> None:
        """Take `verdict` for the job's end if the job is gone from now on: tfsteps ends it."""

    def give_up(self, verdict: Verdict, now: float) -> None:
        """End with `verdict`, whatever is reported later."""

    def last(self) -> JobChanged:
        """Return the end of the job with its cause, as known by now; `final` is set."""


class FollowedJob(Stoppable, abc.ABC):
    """A job that was created or adopted, and that goes on if its launcher is killed.

    Attributes:
        name: Its name.
        uid: Its uid.
        platform: Whose answers are read, in messages.
        is_new: This launcher has certainly created it.
    """

    name: str
    uid: str
    platform: str
    is_new = False
    _tracker: JobTracker

    def __init__(
        self, host: LauncherPod | None, urgent: Clients, in_handler: Clients, denied_seconds: Mapping[Cause, float]
    ) -> None:
        """Send no request.

        Args:
            host: The launcher's pod; None = not in a pod.
            urgent: For requests that must not wait.
            in_handler: The same, for the signal handler only: it may interrupt code that holds a lock of another
                client's pool.
            denied_seconds: For how long a denied stop is retried, by its cause.
        """
        self._host, self._clients, self._clients_in_handler = host, urgent, in_handler
        self._stop = StopController(self, denied_seconds, host.grace_seconds if host else None)
        self._server_age = ServerAge()

    def events(self) -> Iterator[Event]:
        """Yield events in order; the last is a JobChanged to a terminal state.

        Raises:
            LaunchError: The job can no longer be followed, or an answer is not valid.
        """
        try:
            self._begin()
            expect = functools.partial(self._stop.expect, self._clients_in_handler)
            with self._host.watch_deletion(expect) if self._host else contextlib.nullcontext():
                while not self._tracker.final:
                    yield from self._next()
                    if self._tracker.final:  # an ended job is neither stopped nor repaired: it may have to be kept
                        break
                    if not self._stop.detaching:
                        self._tend()
                    pipeline = self._host.pipeline if self._host else None  # after `_tend`, which may have read the pod
                    self._stop.continue_stop(self._clients, pipeline)
                    if not (self._stop.detaching or self._stop.cause):
                        self._limit()
            yield from self._rest()
            yield self._tracker.last()
        except MALFORMED as error:
            stopped, name = self._stop.cause, self.what
            state = f"whether {name} was stopped is not known" if stopped else f"{name} was not stopped"
            message = f"{state}, but an answer of {self.platform} is not understood: {error!r}"
            raise LaunchError(message, retryable=True) from error

    def stop(self, cause: Cause) -> None:
        """Ask the platform to end the job, and return. A second call does not wait. Safe in a signal handler."""
        self._stop.request(cause, self._clients_in_handler if cause.requested else self._clients)

    # --- for the stop controller

    @property
    def ended(self) -> bool:
        return self._tracker.final is not None

    def detach(self, cluster: Any, since: float) -> Detachment:
        assert self._host
        if since:  # not in the signal handler
            self._host.retry_read(cluster)
        return self._detach(self._host, cluster, since)

    def begin_stop(self, sentence: str) -> None:
        self._tracker.stop(Verdict(State.CANCELLED, "Stopped", sentence))

    def give_up(self) -> None:
        message = f"its end was not waited for; {self._leftover()}"
        self._tracker.give_up(Verdict(State.CANCELLED, "Stopped", message), time.time())

    # --- what differs between platforms

    def _begin(self) -> None:
        """Start what reads the platform."""

    @abc.abstractmethod
    def _next(self) -> Iterator[Event]:
        """Wait for the platform's next answer for at most `TICK_SECONDS`, and yield what follows; a Tick if it is due.

        LaunchError if it can no longer be followed.
        """

    def _tend(self) -> None:
        """Do what the running job needs between two answers."""

    def _limit(self) -> None:
        """Stop the job if it goes on although its platform should have ended it."""

    @abc.abstractmethod
    def _rest(self) -> Iterator[Event]:
        """Yield the last lines of the ended job's replicas, and how they ended, as far as they can be read."""

    @abc.abstractmethod
    def _detach(self, host: LauncherPod, cluster: Any, since: float) -> Detachment:
        """Do the platform's part of `detach`."""

    @abc.abstractmethod
    def _leftover(self) -> str:
        """Return what may be left of a job whose end was not waited for, and how it is removed."""


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
