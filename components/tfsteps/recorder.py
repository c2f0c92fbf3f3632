"""Turns events into the status of an attempt, on disk and before the observers' eyes."""

from collections.abc import Sequence
from typing import Protocol

from tfsteps.logbook import Logbook
from tfsteps.records import Attempt, ReplicaStatus, Span, Status, Transition
from tfsteps.systems.base import Event, JobChanged, LaunchError, LogLine, ReplicaChanged, ReplicaState, State, Tick

_UP = (ReplicaState.PENDING, ReplicaState.RUNNING)


class Observer(Protocol):
    """Somebody who looks on while a job runs. Called from the launcher's loop: it must be quick, and must not raise."""

    def changed(self, status: Status) -> None:
        """See the status after the job or one of its replicas changed."""

    def line(self, line: LogLine) -> None:
        """See a log line."""


class Recorder:
    """Keeps one status up to date.

    Attributes:
        status: As it is now.
        logbook: The lines so far.
    """

    def __init__(self, status: Status, attempt: Attempt, logbook: Logbook, observers: Sequence[Observer]) -> None:
        """Write the first status. LaunchError if the disk does not take even that."""
        self.status = status
        self.logbook = logbook
        self._attempt = attempt
        self._write = attempt.write
        self._observers = observers
        self._unsaved: OSError | None = None
        self._save()
        self._must_be_saved()

    def see(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Tick():
                if self._unsaved:  # the disk may have room again
                    self._save()
                return
            case LogLine():
                self.logbook.write(event)
                for observer in self._observers:
                    observer.line(event)
                return
            case ReplicaChanged():
                _replica(self.status, event)
            case JobChanged():
                _job(self.status, event)
        self._save()
        for observer in self._observers:
            observer.changed(self.status)

    def end(self, event: JobChanged) -> None:
        """Take in the end of the job. LaunchError if it cannot be saved: a step whose result is lost is not green."""
        if self.logbook.lost:
            self.status.warnings.append(f"{self.logbook.lost} log lines could not be saved: {self.logbook.error}")
        self._write = self._attempt.write_last
        self.see(event)
        self._must_be_saved()

    def _save(self) -> None:
        try:
            self._write(self.status)
            self._unsaved = None
        except OSError as error:
            self._unsaved = error

    def _must_be_saved(self) -> None:
        if self._unsaved:
            message = f"the status ({self.status.state}) cannot be saved: {self._unsaved}; free some space there"
            raise LaunchError(message, retryable=True) from self._unsaved


def _job(status: Status, event: JobChanged) -> None:
    status.state, status.reason, status.message = event.state, event.reason, event.message
    if event.state is State.RUNNING and status.started is None:
        status.started = event.at
    if event.state.terminal:
        status.ended = event.at
    status.transitions.append(Transition(at=event.at, state=event.state, reason=event.reason, message=event.message))


def _replica(status: Status, event: ReplicaChanged) -> None:
    replica = next(r for r in status.replicas if (r.role, r.index) == (event.replica.role, event.replica.index))
    replica.state, replica.restarts = event.state, event.restarts
    if event.state is ReplicaState.RESTARTING:
        return
    if event.state in _UP:
        _came_up(replica, event)
    elif replica.spans:
        span = replica.spans[-1]
        span.ended, span.state = event.at, event.state
        span.exit_code, span.reason = event.exit_code, event.reason
        span.cpu_seconds, span.memory_bytes = event.cpu_seconds, event.memory_bytes


def _came_up(replica: ReplicaStatus, event: ReplicaChanged) -> None:
    """Begin a new incarnation, unless it only went from pending to running."""
    if not replica.spans or replica.spans[-1].ended is not None:
        replica.spans.append(Span(started=event.at))
    replica.spans[-1].state, replica.spans[-1].place = event.state, event.place
