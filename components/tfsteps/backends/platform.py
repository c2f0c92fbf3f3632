"""The backend of a platform: what commands need, from the few requests that each platform answers in its own way."""

import abc
import contextlib
import heapq
import math
import pathlib
import queue
import shlex
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Generic, NoReturn

import msgspec

from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.base import NO_LABELS, EventFolder, LogLine, LogOptions, Section
from tfsteps.backends.find import FoundRun, JobT, Selection, run_among
from tfsteps.backends.local import tensorboard as local_tensorboard
from tfsteps.backends.log_printer import LogPrinter
from tfsteps.backends.records import Record, record_of, recorded_job, recorded_launcher, reports_of
from tfsteps.backends.waiting import GONE_SECONDS, POLL_SECONDS
from tfsteps.backends.whole_runs import pause_run
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.outputs import verdict
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.failure import failure_summary
from tfsteps.launcher.log_writer import Tails
from tfsteps.launcher.recorder import Observer, change_state
from tfsteps.runs.events import Event, JobChanged, LogLines, ReplicaChanged, State
from tfsteps.runs.graph import Surroundings
from tfsteps.runs.log_file import stamp
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import Incarnations, ReplicaStatus, Status
from tfsteps.systems import registry


class EventLog:
    """Prints lines of several jobs of one run.

    Attributes:
        read: How many lines of each source have been read, also of those that are not printed.
    """

    def __init__(self, tasks: Sequence[str], options: LogOptions) -> None:
        """Get ready to print lines of the jobs of some tasks, in this order."""
        self.read: dict[tuple[int, str], int] = {}
        self._tasks = tasks
        self._printer = LogPrinter(options)
        self._printer.several = len(tasks) > 1

    @property
    def printed(self) -> int:
        """Number of lines printed."""
        return self._printer.printed

    def print(self, events: Sequence[tuple[int, Event]], tail: int | None) -> None:
        """Print the lines of `events` in the order of time; only the last ones, as many as `tail`; None = all."""
        streams: dict[tuple[int, str], list[LogLine]] = {}
        for position, event in events:
            if isinstance(event, LogLines) and event.texts:
                streams.setdefault((position, event.source), []).extend(self._lines(position, event))
        self.read = {source: len(lines) for source, lines in streams.items()}
        self._printer.print(heapq.merge(*streams.values(), key=attrgetter("stamp")), tail)
        self._printer.flush()

    def go_on(self, position: int, event: Event, skipped: dict[tuple[int, str], int]) -> None:
        """Print the lines of an event, except the first ones of its source, whose number `skipped` counts down."""
        if not isinstance(event, LogLines) or not event.texts:
            return
        source = position, event.source
        known = skipped.get(source, 0)
        skipped[source] = max(0, known - len(event.texts))
        self._printer.print([*self._lines(position, event)][known:])
        self._printer.flush()

    def _lines(self, position: int, event: LogLines) -> Iterator[LogLine]:
        stamps = event.stamps or [stamp(event.at)] * len(event.texts)
        for at, text in zip(stamps, event.texts, strict=True):
            yield LogLine(at.decode(), self._tasks[position], event.source, event.incarnation or 0, text)


class PlatformBackend(abc.ABC, Generic[JobT]):
    """The `RunBackend` of one platform. A subclass implements the requests; all else is built from them.

    All methods raise CommandError or ApiError, as those of `RunBackend`.

    Attributes:
        name: The job system, and so the value of `--on`.
    """

    name: str

    @property
    def title(self) -> str:
        """The platform's name for people."""
        return registry.platform(self.name).title

    @property
    @abc.abstractmethod
    def where(self) -> str:
        """For messages: `on HAI at http://hai.example`, with the address that is configured."""

    @abc.abstractmethod
    def jobs(self, run: str = "", labels: Mapping[str, str] = NO_LABELS) -> Sequence[JobT]:
        """Return the jobs of the run with this id, or of all runs, the oldest first; only those with all labels."""

    @abc.abstractmethod
    def refreshed(self, job: JobT) -> JobT:
        """Return the current state of a job; if the platform no longer has it, its last state as `lost`."""

    @abc.abstractmethod
    def request_stop(self, job: JobT) -> None:
        """Ask the platform to end a job, and return at once."""

    @abc.abstractmethod
    def past_events(self, job: JobT) -> Sequence[Event]:
        """Return the events of a job so far, in order; the last one of an ended job is its end."""

    @abc.abstractmethod
    def events(self, job: JobT) -> Iterator[Event]:
        """Yield the events of a job from its start to its end, as they come. Runs in a thread of its own."""

    def now(self) -> float:
        return time.time()

    def pipelines(self, jobs: Sequence[JobT]) -> list[PipelineRecord]:  # noqa: ARG002
        return []

    def find(self, text: str) -> FoundRun[JobT]:
        return run_among(self.jobs(), text, self.where, BackendLocation(self.name).options)

    def recorded(self, job: JobT) -> bytes:
        record = record_of(job.status)
        return recorded_job(record.attempt) if record else b""

    def record(self, job: JobT) -> Record | None:
        return record_of(job.status)

    def reports(self, jobs: Sequence[JobT], most: int) -> list[pathlib.Path | None]:  # noqa: ARG002  they are here
        return reports_of(map(self.record, jobs))

    def explain(self, job: JobT) -> Status:
        view = _StatusView(job.status)
        for event in self.past_events(job):
            view.apply(event)
        return view.summarized()

    def surroundings(self, run: str, jobs: Sequence[JobT]) -> Surroundings:  # noqa: ARG002
        """Return the launchers on this machine."""
        return Surroundings(
            launchers={job.status.identity: node for job in jobs if (node := recorded_launcher(job.status))}
        )

    def follow(
        self,
        jobs: Sequence[JobT],
        selection: Selection,  # noqa: ARG002
        observers: Sequence[Observer],
    ) -> list[Status]:
        """Follow the jobs, but not those that start meanwhile."""
        views = [_StatusView(job.status) for job in jobs]
        for position, event in self._merged(jobs):
            if views[position].apply(event):
                for observer in observers:
                    observer.changed(views[position].status)
        return [view.summarized() for view in views]

    def _merged(self, jobs: Sequence[JobT]) -> Iterator[tuple[int, Event]]:
        """Yield the events of jobs, each with the position of its job in `jobs`, until all have ended.

        Raises:
            LaunchError: One of them can no longer be followed.
        """
        events: queue.Queue[tuple[int, Event | Exception | None]] = queue.Queue(maxsize=1000)

        def read(position: int, job: JobT) -> None:
            try:
                for event in self.events(job):
                    events.put((position, event))
                events.put((position, None))
            except Exception as error:  # noqa: BLE001  raised again by the reader
                events.put((position, error))

        for position, job in enumerate(jobs):
            threading.Thread(target=read, args=(position, job), daemon=True).start()
        unfinished = len(jobs)
        while unfinished:
            match events.get():
                case _, None:
                    unfinished -= 1
                case _, Exception() as error:
                    raise error
                case position, event:
                    yield position, event

    def stop(self, jobs: Sequence[JobT], *, now: bool) -> None:
        running = [job for job in jobs if not job.status.state.terminal]
        for job in running:
            self.request_stop(job)
        for job in jobs:
            if job not in running:
                print(f"already ended: {verdict(job.status)}")
        if now and running:
            warn(f"--now has no effect on {self.title}, which gives every replica its own grace period")
        for job in running:
            print(f"stopping {job.status.identity.task}: waiting for {self.title} to end its replicas", flush=True)
        for job in running:
            print(verdict(self.wait_for_end(job).status))

    def wait_for_end(self, job: JobT, seconds: float = math.inf) -> JobT:
        """Return a job once it has ended, or as it is after some seconds."""
        give_up = time.monotonic() + seconds
        while not (current := self.refreshed(job)).status.state.terminal and time.monotonic() < give_up:
            time.sleep(POLL_SECONDS)
        return current

    def set_paused(self, jobs: Sequence[JobT], selection: Selection, *, paused: bool) -> None:
        pause_run(jobs[0].status.identity.run, {self.name}, selection.task, paused=paused)

    def requeue(self, jobs: Sequence[JobT]) -> None:  # noqa: ARG002
        """Have the platform interrupt jobs and queue them again. CommandError if it cannot."""
        raise CommandError(f"{self.title} cannot interrupt a job and queue it again; `tfsteps pause` stops it")

    def change(self, jobs: Sequence[JobT], priority: str, queue: str) -> None:  # noqa: ARG002
        """Change priority and queue of jobs; empty = leave it. CommandError if the platform cannot."""
        raise CommandError(f"{self.title} cannot change a job that exists; stop it, and run it with other settings")

    def tensorboard(self, jobs: Sequence[JobT], port: int) -> contextlib.AbstractContextManager[str]:
        return local_tensorboard.opened([job.status for job in jobs], port)

    def tensorboard_at(self, folder: EventFolder, port: int) -> contextlib.AbstractContextManager[str]:
        return local_tensorboard.opened_folder(folder, port)

    def sections(self, job: JobT) -> Iterator[Section]:  # noqa: ARG002
        """Yield nothing that is not in the status."""
        yield from ()

    def commands(self, job: JobT) -> list[str]:
        run = shlex.quote(job.status.identity.run)
        return [f"tfsteps logs {run} --on {self.name}{'' if job.status.state.terminal else ' --follow'}"]

    def containers(self, job: JobT) -> Collection[str]:  # noqa: ARG002  a replica is one container
        return []

    def print_log(self, jobs: Sequence[JobT], selection: Selection, options: LogOptions) -> int:  # noqa: ARG002
        log = EventLog([job.status.identity.task for job in jobs], options)
        if not options.follow or options.tail is not None:
            events = [(position, event) for position, job in enumerate(jobs) for event in self.past_events(job)]
            log.print(events, options.tail)
        if options.follow:
            skipped = log.read
            for position, event in self._merged(jobs):
                log.go_on(position, event, skipped)
        return log.printed

    def shell(self, job: JobT, replica: str | None, command: Sequence[str]) -> NoReturn:  # noqa: ARG002
        run = shlex.quote(job.status.identity.run)
        problem = f"run {run}: {self.title} has no request that starts a command in a replica"
        logs = f"tfsteps logs {run} --on {self.name} -f"
        raise CommandError(f"{problem}; print what you need to see, and read it with `{logs}`")


class PlatformClearing(Generic[JobT]):
    """The jobs of a run, or of a task of it, on a platform, which keeps its own record of ended jobs."""

    def __init__(self, backend: PlatformBackend[JobT], run: str, task: str = "") -> None:
        """Look at the jobs of the run with this id; `task` empty = of all its tasks."""
        self._backend, self._title = backend, backend.title
        jobs = [job for job in backend.jobs(run) if task in ("", job.status.identity.task)] if run else []
        self._jobs = [job for job in jobs if not job.status.state.terminal]
        self._ended = len(jobs) - len(self._jobs)

    def lines(self) -> list[str]:
        return [f"job {job.status.job} on {self._title}" for job in self._jobs]

    def warnings(self) -> list[str]:
        names = sorted({job.run_object for job in self._jobs if job.run_object})
        warnings = [
            f"pipeline run {name} may still be running, and would start its next step; stop it first" for name in names
        ]
        if self._ended:
            warnings.append(f"{self._title} keeps its own record of {self._ended} ended jobs; it cannot be removed")
        return warnings

    def clear(self) -> list[str]:
        errors, stopped = [], []
        for job in self._jobs:
            try:
                self._backend.request_stop(job)
                stopped.append(job)
            except ApiError as error:
                errors.append(f"job {job.status.job} could not be stopped: {error}")
        give_up = time.monotonic() + GONE_SECONDS
        left = [self._backend.wait_for_end(job, give_up - time.monotonic()) for job in stopped]
        errors += [f"job {job.status.job} is still being stopped" for job in left if not job.status.state.terminal]
        return errors


class _StatusView:
    """Turns the events of a job into its status, for commands that write no records."""

    def __init__(self, status: Status) -> None:
        replicas = [ReplicaStatus(role=replica.role, index=replica.index) for replica in status.replicas]
        self.status = msgspec.structs.replace(status, replicas=replicas, transitions=[])
        self._ended = status.ended
        self._incarnations = Incarnations(replicas)
        self._tails = Tails()
        self._blamed = ""

    def apply(self, event: Event) -> bool:
        """Apply an event; return whether the status has changed."""
        match event:
            case LogLines():
                self._tails.add(event)
                return False
            case ReplicaChanged():
                self._incarnations.apply(event)
            case JobChanged():
                change_state(self.status, event, self._incarnations.started)
                self._blamed = str(event.replica or "")
            case _:
                return False
        return True

    def summarized(self) -> Status:
        """Return the status, with a failure summary if it failed, and the end as the platform reports it."""
        status = self.status
        if status.state.terminal:
            status.ended = self._ended or status.ended
        if status.state in (State.FAILED, State.LOST):
            status.failure = failure_summary(status, self._tails.last_lines, self._blamed)
        return status
