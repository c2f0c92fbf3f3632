"""Turns events into the status of an attempt: saves it on disk and passes it to observers."""

import time
from collections.abc import Sequence
from typing import Protocol

from tfsteps.launcher.log_writer import LogWriter
from tfsteps.launcher.usage_writer import UsageWriter
from tfsteps.os_errors import next_step
from tfsteps.runs.events import (
    Event,
    JobChanged,
    LogLines,
    PartialLine,
    ReplicaChanged,
    State,
    Tick,
    UsageSampled,
)
from tfsteps.runs.incarnations import Incarnations
from tfsteps.runs.status import Status, Transition
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems.base import LaunchError

_SAVE_SECONDS = 0.2  # between two saved statuses, unless the job's state changes
_SHOWN = 200  # bytes of a last line
_TRANSITIONS = 100  # this many of the first and of the last are kept


class Observer(Protocol):
    """Is called while a job runs, from the launcher's loop: it must be quick, and must not raise."""

    def changed(self, status: Status) -> None:
        """Receive the status after the job or one of its replicas changed."""

    def lines(self, lines: LogLines) -> None:
        """Receive consecutive lines of a replica."""

    def partial(self, line: PartialLine) -> None:
        """Receive a line that has not ended yet, such as a progress bar."""


class Recorder:
    """Keeps one status up to date.

    Attributes:
        status: As it is now.
        logbook: The lines so far.
        last_outputs: When each replica printed last, in seconds since the epoch, and what.
    """

    def __init__(
        self, status: Status, attempt: AttemptFolder, logbook: LogWriter, observers: Sequence[Observer]
    ) -> None:
        """Write the first status. LaunchError if it cannot be written."""
        self.status = status
        self.logbook = logbook
        self.last_outputs: dict[str, tuple[float, str]] = {}
        self._attempt = attempt
        self._last = False  # the next status is the last one
        self._observers = observers
        self._unsaved: OSError | None = None
        self._dirty = False  # whether the status differs from the saved one
        self._saved, self._saved_at = status.state, 0.0  # the state that was saved last, and when
        self._incarnations = Incarnations(status.replicas)
        self._usage = UsageWriter(attempt.usage)
        self.save()
        self._must_be_saved()

    def apply(self, event: Event) -> None:
        """Record one event."""
        match event:
            case Tick():
                self._save_if_due()
            case LogLines():
                self._save_if_due()
                self.logbook.write(event)
                if event.texts and not event.container:
                    self.last_outputs[event.source] = time.time(), event.texts[-1][:_SHOWN].decode(errors="replace")
                for observer in self._observers:
                    observer.lines(event)
            case PartialLine():
                self.last_outputs[str(event.replica)] = time.time(), event.text[:_SHOWN].decode(errors="replace")
                for observer in self._observers:
                    observer.partial(event)
            case UsageSampled():
                self._usage.write(event.samples, event.note)
            case _:
                self._see_change(event)

    def _see_change(self, event: JobChanged | ReplicaChanged) -> None:
        if isinstance(event, ReplicaChanged):
            self._incarnations.apply(event)
        else:
            change_state(self.status, event, self._incarnations.started)
        if isinstance(event, JobChanged) and (event.state is not self._saved or event.state.terminal):
            self.save()
        else:
            self._dirty = True
            self._save_if_due()
        for observer in self._observers:
            observer.changed(self.status)

    def set_tensorboard(self, url: str) -> None:
        """Record the address of the TensorBoard, unless one is known; empty = there is none yet."""
        if url and not self.status.tensorboard_url:
            self.status.tensorboard_url = url
            self.save()
            for observer in self._observers:
                observer.changed(self.status)

    def end(self, event: JobChanged) -> None:
        """Record the end of the job. LaunchError if it cannot be saved: a step without its result must not succeed."""
        self.status.warnings += [*self.logbook.warnings, *self._usage.warnings]
        self.status.usage = self._usage.roles
        self._last = True
        self.apply(event)
        self._must_be_saved()

    def _save_if_due(self) -> None:
        """Save changes, and what could not be saved before. Not each time: a status of many replicas is long."""
        if (self._dirty or self._unsaved) and time.monotonic() - self._saved_at > _SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the status to disk now. If that fails, a later event retries it."""
        self._saved, self._saved_at, self._dirty = self.status.state, time.monotonic(), False
        try:
            self._attempt.write(self.status, last=self._last)
            self._unsaved = None
        except OSError as error:
            self._unsaved = error

    def _must_be_saved(self) -> None:
        if self._unsaved:
            message = f"the status ({self.status.state}) cannot be saved: {self._unsaved}; {next_step(self._unsaved)}"
            raise LaunchError(message, retryable=True) from self._unsaved


def change_state(status: Status, event: JobChanged, started: float | None = None) -> None:
    """Put a job's new state into its status.

    Args:
        status: Changed in place.
        event: The new state.
        started: When all replicas had started, in seconds since the epoch, if an ended job was never seen running.
    """
    status.state, status.reason, status.message = event.state, event.reason, event.message
    if event.state is State.RUNNING and status.started is None:
        status.started = event.at
    if event.state.terminal:
        status.started = status.started or started
        status.ended = event.at
    now = Transition(at=event.at, state=event.state, reason=event.reason, message=event.message)
    status.transitions.append(now)
    if len(status.transitions) > 2 * _TRANSITIONS:  # a scheduler may have another message each second
        del status.transitions[_TRANSITIONS]
