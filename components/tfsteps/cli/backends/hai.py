"""Finds, follows, explains and stops tasks on HAI Platform through its API."""

import contextlib
import heapq
import itertools
import shlex
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from operator import itemgetter

import msgspec

from tfsteps.cli.backends import local_tensorboard
from tfsteps.cli.backends.base import LogOptions, Section
from tfsteps.cli.backends.find import Run, Selection, run_among
from tfsteps.cli.backends.place import PATIENCE_SECONDS, On, Place
from tfsteps.cli.backends.records import record_of, recorded_job
from tfsteps.cli.backends.whole_runs import pause_run
from tfsteps.cli.errors import CommandError
from tfsteps.cli.watch import POLL_SECONDS
from tfsteps.console.messages import warn
from tfsteps.console.outputs import verdict
from tfsteps.console.text import clean, iso, printable
from tfsteps.kube.access import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import failure_summary
from tfsteps.launcher.lifecycle import Observer
from tfsteps.launcher.recorder import change_state
from tfsteps.runs.events import Event, JobChanged, LogLines, ReplicaChanged, State
from tfsteps.runs.incarnations import Incarnations
from tfsteps.runs.last_lines import Tails
from tfsteps.runs.log_file import times
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.systems.hai import access
from tfsteps.systems.hai.client import Client
from tfsteps.systems.hai.messages import newest
from tfsteps.systems.hai.runs import HaiRun, HaiRuns, stop_task


@contextlib.contextmanager
def hai() -> Iterator["HaiBackend"]:
    """Yield what has been launched on the platform that is configured; a refusal of it ends the command."""
    try:
        yield HaiBackend(HaiRuns(Client(access.find(), patience=PATIENCE_SECONDS)))
    except AccessError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise CommandError(str(error), ExitCode.PLATFORM if error.unavailable else ExitCode.USAGE) from error


class HaiBackend:
    """The `RunBackend` of one HAI Platform: the tasks of the user whose token is configured."""

    def __init__(self, runs: HaiRuns) -> None:
        """Take what has been launched on the platform."""
        self.runs = runs

    @property
    def where(self) -> str:
        return self.runs.where

    def jobs(self, run: str = "") -> list[HaiRun]:
        return self.runs.jobs(run)

    def pipelines(self) -> list[PipelineRecord]:
        return []

    def find(self, text: str) -> Run[HaiRun]:
        return run_among(self.jobs(), text, self.where, Place(On.HAI).options)

    def recorded(self, job: HaiRun) -> bytes:
        record = record_of(job.status)
        return recorded_job(record.attempt) if record else b""

    def explain(self, job: HaiRun) -> Status:
        """Read the logs of the ranks: they have more than the platform says."""
        view = _View(job)
        for event in self.runs.look(job):
            view.see(event)
        return view.explained()

    def follow(
        self,
        jobs: Sequence[HaiRun],
        selection: Selection,  # noqa: ARG002
        observers: Sequence[Observer],
    ) -> list[Status]:
        """Follow the tasks, but not those that start meanwhile."""
        views = [_View(job) for job in jobs]
        for position, event in self.runs.follow(jobs):
            if views[position].see(event):
                for observer in observers:
                    observer.changed(views[position].status)
        return [view.explained() for view in views]

    def stop(self, jobs: Sequence[HaiRun], *, now: bool) -> None:
        running = [job for job in jobs if not job.status.state.terminal]
        for job in running:
            stop_task(self.runs.client, job.task)
        for job in jobs:
            if job not in running:
                print(f"already ended: {verdict(job.status)}")
        if now and running:
            warn("--now has no effect on HAI, which gives every rank some seconds")
        for job in running:
            print(f"stopping {job.status.identity.task}: waiting for HAI to end its ranks", flush=True)
        for job in running:
            while not (ended := self.runs.refreshed(job)).status.state.terminal:
                time.sleep(POLL_SECONDS)
            print(verdict(ended.status))

    def set_paused(self, jobs: Sequence[HaiRun], selection: Selection, *, paused: bool) -> None:
        """Pause or resume all tasks of the run: HAI cannot do so with one."""
        pause_run(jobs[0].status.identity.run, {On.HAI.value}, selection.task, paused=paused)

    def tensorboard(self, jobs: Sequence[HaiRun], port: int) -> contextlib.AbstractContextManager[str]:
        return local_tensorboard.opened([job.status for job in jobs], port)

    def sections(self, job: HaiRun) -> Iterator[Section]:
        columns = [
            job.task.get(f"{name}_list") or [] for name in ("id", "begin_at", "end_at", "worker_status", "stop_code")
        ]
        rows = itertools.zip_longest(*columns, fillvalue="")
        title = "tasks of the chain: id, begin, end, state of the ranks, stop code"
        yield title, [["" if cell is None else str(cell) for cell in row] for row in rows]
        yield "what HAI says", [[line] for line in newest(self.runs.messages(job))]

    def commands(self, job: HaiRun) -> list[str]:
        run = shlex.quote(job.status.identity.run)
        return [f"tfsteps logs {run} --on hai{'' if job.status.state.terminal else ' --follow'}"]

    def print_log(self, jobs: Sequence[HaiRun], selection: Selection, options: LogOptions) -> None:  # noqa: ARG002
        log = _Log(jobs, options)
        if not options.follow or options.tail is not None:
            events = [(position, event) for position, job in enumerate(jobs) for event in self.runs.look(job)]
            log.print(events, options.tail)
        if options.follow:
            skipped = log.printed
            for position, event in self.runs.follow(jobs):
                log.go_on(position, event, skipped)


class _View:
    """Turns the events of a task into its status, for commands that write no records."""

    def __init__(self, job: HaiRun) -> None:
        replicas = [ReplicaStatus(role=replica.role, index=replica.index) for replica in job.plan.replicas]
        self.status = msgspec.structs.replace(job.status, replicas=replicas, transitions=[])
        self._ended = job.status.ended
        self._incarnations = Incarnations(replicas)
        self._tails = Tails()
        self._blamed = ""

    def see(self, event: Event) -> bool:
        """Apply an event; return whether the status has changed."""
        match event:
            case LogLines():
                self._tails.add(event)
                return False
            case ReplicaChanged():
                self._incarnations.see(event)
            case JobChanged():
                change_state(self.status, event, self._incarnations.started)
                self._blamed = str(event.replica or "")
            case _:
                return False
        return True

    def explained(self) -> Status:
        """Return the status, with a failure summary if it failed, and the end as the platform reports it."""
        status = self.status
        if status.state.terminal:
            status.ended = self._ended or status.ended
        if status.state in (State.FAILED, State.LOST):
            status.failure = failure_summary(status, self._tails.last_lines, self._blamed)
        return status


class _Log:
    """Prints lines of several tasks.

    Attributes:
        printed: How many lines of each source have been read, also of those that are not printed.
    """

    def __init__(self, jobs: Sequence[HaiRun], options: LogOptions) -> None:
        self.printed: dict[tuple[int, str], int] = {}
        self._tasks = [f"{clean(job.status.identity.task)}/" if len(jobs) > 1 else "" for job in jobs]
        self._options = options
        self._out = sys.stdout.buffer

    def print(self, events: Sequence[tuple[int, Event]], tail: int | None) -> None:
        """Print the lines of `events` in the order of time; only the last ones, as many as `tail`; None = all."""
        streams: dict[tuple[int, str], list[tuple[float, bytes]]] = {}
        for position, event in events:
            if isinstance(event, LogLines) and event.texts:
                streams.setdefault((position, event.source), []).extend(times(event))
        self.printed = {source: len(lines) for source, lines in streams.items()}
        ordered = [self._lines(source, lines) for source, lines in streams.items()]
        lines = (line for _, line in heapq.merge(*ordered, key=itemgetter(0)))
        self._out.writelines(lines if tail is None else deque(lines, maxlen=tail))
        self._out.flush()

    def go_on(self, position: int, event: Event, skipped: dict[tuple[int, str], int]) -> None:
        """Print the lines of an event, except the first ones of its source, whose number `skipped` counts down."""
        if not isinstance(event, LogLines) or not event.texts:
            return
        source = position, event.source
        known = skipped.get(source, 0)
        lines = [*times(event)][known:]
        skipped[source] = max(0, known - len(event.texts))
        self._out.writelines(line for _, line in self._lines(source, lines))
        self._out.flush()

    def _lines(self, source: tuple[int, str], lines: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
        """Yield each line, ready to print, with its time; nothing for a source that is not wanted."""
        position, name = source
        if not self._options.wanted(name):
            return
        head = f"[{self._tasks[position]}{name}] ".encode()
        for at, text in lines:
            stamp = f"{iso(at)} ".encode() if self._options.timestamps else b""
            yield at, stamp + head + printable(text) + b"\n"
