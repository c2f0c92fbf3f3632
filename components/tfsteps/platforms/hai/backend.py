"""Finds, follows, explains and stops tasks on HAI Platform through its API."""

import contextlib
import itertools
import pathlib
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

import msgspec

from tfsteps.backends.base import NO_LABELS, EventFolder, LogOptions, Section
from tfsteps.backends.errors import CommandError
from tfsteps.backends.find import Run, Selection, run_among
from tfsteps.backends.launchers import recorded_launcher
from tfsteps.backends.local import tensorboard as local_tensorboard
from tfsteps.backends.pipeline_link import pipeline_links
from tfsteps.backends.place import PATIENCE_SECONDS, On, Place
from tfsteps.backends.records import Record, record_of, recorded_job, reports_of
from tfsteps.backends.waiting import POLL_SECONDS
from tfsteps.backends.whole_runs import pause_run
from tfsteps.console.messages import warn
from tfsteps.console.outputs import verdict
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import failure_summary
from tfsteps.launcher.recorder import Observer, change_state
from tfsteps.platforms.hai import access, schema
from tfsteps.platforms.hai.client import Client
from tfsteps.platforms.hai.log_lines import HaiLog
from tfsteps.platforms.hai.messages import newest
from tfsteps.platforms.hai.runs import HaiRun, HaiRuns, stop_task
from tfsteps.runs.events import Event, JobChanged, LogLines, ReplicaChanged, State
from tfsteps.runs.graph import Node, NodeKind, Surroundings
from tfsteps.runs.incarnations import Incarnations
from tfsteps.runs.last_lines import Tails
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import ReplicaStatus, Status


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

    def jobs(self, run: str = "", labels: Mapping[str, str] = NO_LABELS) -> list[HaiRun]:
        return [job for job in self.runs.jobs(run) if labels.items() <= schema.labels(job.task).items()]

    def pipelines(self, jobs: Sequence[HaiRun]) -> list[PipelineRecord]:  # noqa: ARG002
        return []

    def find(self, text: str) -> Run[HaiRun]:
        return run_among(self.jobs(), text, self.where, Place(On.HAI).options)

    def recorded(self, job: HaiRun) -> bytes:
        record = record_of(job.status)
        return recorded_job(record.attempt) if record else b""

    def record(self, job: HaiRun) -> Record | None:
        return record_of(job.status)

    def reports(self, jobs: Sequence[HaiRun], most: int) -> list[pathlib.Path | None]:  # noqa: ARG002  they are here
        return reports_of(map(self.record, jobs))

    def explain(self, job: HaiRun) -> Status:
        """Read the logs of the ranks: they have more than the platform says."""
        view = _View(job)
        for event in self.runs.look(job):
            view.see(event)
        return view.explained()

    def surroundings(self, run: str, jobs: Sequence[HaiRun]) -> Surroundings:
        """Return the launchers on this machine, and the names of the Workflows, which other clusters have."""
        workflows = dict.fromkeys(schema.workflow(job.task)[:2] for job in jobs if job.workflow)
        return Surroundings(
            pipelines=[
                Node(
                    kind=NodeKind.PIPELINE,
                    name=name,
                    detail=f"in namespace {namespace} of another cluster",
                    links=pipeline_links(run, namespace, name),
                )
                for namespace, name in workflows
            ],
            launchers={job.status.identity: node for job in jobs if (node := recorded_launcher(job.status))},
        )

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
        pause_run(jobs[0].status.identity.run, {schema.NAME}, selection.task, paused=paused)

    def tensorboard(self, jobs: Sequence[HaiRun], port: int) -> contextlib.AbstractContextManager[str]:
        return local_tensorboard.opened([job.status for job in jobs], port)

    def tensorboard_at(self, folder: EventFolder, port: int) -> contextlib.AbstractContextManager[str]:
        return local_tensorboard.opened_folder(folder, port)

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

    def now(self) -> float:
        return self.runs.client.server_time() or time.time()

    def containers(self, job: HaiRun) -> list[str]:  # noqa: ARG002  a rank is one container
        return []

    def print_log(self, jobs: Sequence[HaiRun], selection: Selection, options: LogOptions) -> int:  # noqa: ARG002
        log = HaiLog(jobs, options)
        if not options.follow or options.tail is not None:
            events = [(position, event) for position, job in enumerate(jobs) for event in self.runs.look(job)]
            log.print(events, options.tail)
        if options.follow:
            skipped = log.read
            for position, event in self.runs.follow(jobs):
                log.go_on(position, event, skipped)
        return log.printed

    def shell(self, job: HaiRun, replica: str | None, command: Sequence[str]) -> NoReturn:  # noqa: ARG002
        run = shlex.quote(job.status.identity.run)
        problem = f"run {run}: HAI has no request that starts a command in a rank"
        raise CommandError(f"{problem}; print what you need to see, and read it with `tfsteps logs {run} --on hai -f`")


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
