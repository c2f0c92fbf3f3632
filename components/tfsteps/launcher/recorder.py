"""Turns events into the status of an attempt: saves it and its usage on disk, and passes it to observers."""

import contextlib
import os
import pathlib
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from tfsteps.launcher.log_writer import LogWriter
from tfsteps.os_errors import next_step
from tfsteps.runs.events import (
    Event,
    JobChanged,
    LogLines,
    PartialLine,
    ReplicaChanged,
    ReplicaState,
    State,
    Tick,
    UsageSampled,
)
from tfsteps.runs.status import Incarnations, Status, Transition
from tfsteps.runs.store import RECORDS, AttemptFolder, open_private
from tfsteps.runs.usage import Sample, UsageNote, UsageSummary, by_role, merged, records
from tfsteps.spec import RoleName
from tfsteps.systems.base import LaunchError

if TYPE_CHECKING:
    from tfsteps.runs.record_store import RecordStore

_SAVE_SECONDS = 0.2  # between two saved statuses, unless the job's state changes
_SHOWN = 200  # bytes of a last line
_TRANSITIONS = 100  # this many of the first and of the last are kept

LIMIT = 4 << 20
"""The most bytes of the file. 60 replicas that are sampled for 7 days keep at least 200 samples each."""

_FIRST_INTERVAL = 20.0  # seconds; samples are merged in intervals of this length first, then of twice that, ...
_LONGEST_INTERVAL = 1e9
RECORD_SECONDS = 10.0
"""How long the end of a step waits for its record to be stored."""

_IN_POD = "KUBERNETES_SERVICE_HOST"
_LONGEST_SECONDS = 60.0  # for the first record: the job runs meanwhile


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
            case JobChanged() | ReplicaChanged():
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
        unseen = ReplicaState.UNKNOWN if event.state in (State.LOST, State.UNKNOWN) else ReplicaState.STOPPED
        for replica in self.status.replicas:
            if replica.state is ReplicaState.PENDING and not replica.incarnations:  # it never started, and never will
                replica.state = unseen
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


def change_state(status: Status, event: JobChanged, started: float | None) -> None:
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


class UsageWriter:
    """Saves samples. If that fails, for example on a full disk, samples are lost and the job continues.

    When the file reaches its limit, the samples in each interval of time are merged into one; intervals are made longer
    until the file has half of its limit. Therefore newer samples are closer together than older ones.

    Attributes:
        lost: Number of samples that could not be saved.
        error: The first error; empty = no sample was lost.
    """

    def __init__(self, path: pathlib.Path, limit: int = LIMIT) -> None:
        """Prepare; the file is created with the first record, and continued if it exists.

        Args:
            path: The file.
            limit: The most bytes of the file. Exceeded only if one sample for each container needs more than half.
        """
        self.lost = 0
        self.error = ""
        self._path, self._limit, self._due = path, limit, limit
        self._interval = _FIRST_INTERVAL
        self._size: int | None = None  # None = the file has not been looked at
        self._broken = False  # it ends with a part of a line
        self._summaries: dict[tuple[str, str], UsageSummary] = {}

    def write(self, samples: Sequence[Sample], note: str = "") -> None:
        """Save samples, and a note unless it is empty; or count the samples as lost."""
        try:
            if self._size is None:
                self._size = self._open()
            data = _encoded([*samples, *([UsageNote(note)] if note else [])])
            if self._size + len(data) > self._due:
                self._merge()
            self._append(data)
        except OSError as error:
            self.lost += len(samples)
            self.error = self.error or f"{error.strerror}: {error.filename or self._path}"
        for sample in samples:
            self._summaries.setdefault(sample.source, UsageSummary()).add(sample)

    @property
    def roles(self) -> dict[RoleName, UsageSummary]:
        """The summary of each role so far, with the samples that could not be saved."""
        return by_role(self._summaries)

    @property
    def warnings(self) -> list[str]:
        """How many samples are missing in the file; empty = none."""
        return [f"{self.lost} samples of CPU and memory could not be saved: {self.error}"] if self.lost else []

    def _open(self) -> int:
        """Read what an earlier launcher of this attempt has written, and return the size of the file."""
        for record in records(self._path):
            if isinstance(record, Sample):
                self._summaries.setdefault(record.source, UsageSummary()).add(record)
        with open_private(self._path, "ab+") as file:
            size = file.tell()
            if size:
                file.seek(-1, os.SEEK_END)
                self._broken = file.read(1) != b"\n"
        return size

    def _append(self, data: bytes) -> None:
        if self._broken:  # end the damaged line first
            data = b"\n" + data
        done = 0
        with open_private(self._path, "ab", buffering=0) as file:
            try:
                while done < len(data):
                    done += file.write(data[done:])
            finally:
                self._size = file.tell()
                if done:
                    self._broken = not data.endswith(b"\n", 0, done)

    def _merge(self) -> None:
        """Replace the file by one of at most half of the limit, if there are intervals long enough for that."""
        new = self._path.with_suffix(".new")
        try:
            while (size := self._write_merged(new)) > self._limit // 2 and self._interval < _LONGEST_INTERVAL:
                self._interval *= 2
            new.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            raise
        self._size, self._broken = size, False
        self._due = max(self._limit, 2 * size)

    def _write_merged(self, path: pathlib.Path) -> int:
        """Write the records to `path`, those of an interval as one, and return the size in bytes."""
        notes = {record: None for record in records(self._path) if isinstance(record, UsageNote)}
        samples = (record for record in records(self._path) if isinstance(record, Sample))
        with open_private(path, "wb") as file:
            file.write(_encoded(notes))
            for sample in merged(samples, self._interval):
                file.write(_encoded([sample]))
            return file.tell()


def _encoded(items: Iterable[Sample | UsageNote]) -> bytes:
    return b"".join([msgspec.json.encode(item) + b"\n" for item in items])


class RecordKeeper:
    """Stores what is known of an attempt once its job is there, and all of it at the end, if an address is set.

    Requests are sent by a thread: a slow address delays nothing but the end of the step, and that
    by RECORD_SECONDS at most.
    """

    def __init__(self, attempt: AttemptFolder) -> None:
        """Keep the attempt; nothing is done yet."""
        self._attempt = attempt
        self._thread: threading.Thread | None = None
        self._store: RecordStore | None = None
        self._problem = ""

    @classmethod
    def of(cls, attempt: AttemptFolder) -> "RecordKeeper | None":
        """Return what keeps the record of an attempt; None = no address is set, neither here nor for a namespace."""
        return cls(attempt) if RECORDS in os.environ or _IN_POD in os.environ else None

    def begin(self) -> None:
        """Store the first record. Called once the job and its records are there."""
        self._start(_LONGEST_SECONDS)

    def end(self) -> str:
        """Store the last record, and return why it is not stored; empty = it is, or no address is set."""
        if self._thread is None:
            return ""
        until = time.monotonic() + RECORD_SECONDS
        self._thread.join(RECORD_SECONDS)
        if self._thread.is_alive():
            return f"The record of the run may be incomplete: its address has not answered for {RECORD_SECONDS:.0f} s."
        if self._store:
            self._start(until - time.monotonic())
            self._thread.join(max(0.0, until - time.monotonic()))
            if self._thread.is_alive():
                self._problem = f"{self._store.address}: no answer for {RECORD_SECONDS:.0f} s"
        return self._problem and f"The record of the run is not stored: {self._problem}."

    def _start(self, seconds: float) -> None:
        self._thread = threading.Thread(target=self._put, args=(time.monotonic() + seconds,), daemon=True)
        self._thread.start()

    def _put(self, until: float) -> None:
        from tfsteps.runs.record_store import RecordError  # noqa: PLC0415  start-up is measured

        try:
            self._store = self._store or _find()
            if self._store:
                self._store.put(self._attempt, until)
            self._problem = ""
        except RecordError as error:
            self._problem = str(error)


def _find() -> "RecordStore | None":
    """Return where the environment, or else the pod's namespace, says that records are stored; None = nowhere."""
    from tfsteps.runs.record_store import RecordSettings, RecordStore  # noqa: PLC0415

    if RECORDS in os.environ:
        settings = RecordSettings.of(os.environ[RECORDS])
    else:
        from tfsteps.systems.kubernetes import record_settings  # noqa: PLC0415  of launchers in pods

        settings = record_settings.of_pod()
    return RecordStore(settings) if settings else None
