"""Runs by their stored records: those of an address alone, and those of a cluster whose objects are gone."""

import contextlib
import functools
import os
import pathlib
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NoReturn

import msgspec

from tfsteps import typed_json
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.base import NO_LABELS, EventFolder, LogOptions, Section
from tfsteps.backends.find import FoundRun, Selection, run_among
from tfsteps.backends.kubernetes.backend import ClusterBackend
from tfsteps.backends.local import log as local_log
from tfsteps.backends.local import tensorboard as local_tensorboard
from tfsteps.backends.local.backend import LocalBackend
from tfsteps.backends.local.log import LocalAttempt
from tfsteps.backends.records import Record, reports_of
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.json_errors import NOT_READABLE
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.recorder import Observer
from tfsteps.runs import store
from tfsteps.runs.graph import Surroundings
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.record_store import ADDRESSES, RecordError, RecordSettings, RecordStore, copies_of
from tfsteps.runs.status import Status, may_continue
from tfsteps.spec import TrainingJob, is_uri
from tfsteps.systems.kubernetes import record_settings
from tfsteps.systems.kubernetes.query.runs import ClusterJob, ClusterRuns


def settings_at(address: str) -> RecordSettings:
    """Return the settings for an address that a user typed. CommandError if it is none."""
    try:
        settings = RecordSettings.of(address)
    except RecordError as error:
        raise CommandError(str(error).replace(f"{store.RECORDS}=", "--from ", 1)) from error
    if settings is None:
        raise CommandError(f"--from {address!r} is no address; write {ADDRESSES}")
    return settings


class StoredBackend(LocalBackend):
    """Copies of the records at an address, in a folder of this machine: nothing that they tell of can be changed."""

    def __init__(self, settings: RecordSettings) -> None:
        """Copy what lists need. CommandError if the address cannot be used."""
        super().__init__()
        self.home = copies_of(settings.address)
        with _readable():
            self._store = RecordStore(settings)
            self._store.copy(self.home)

    @property
    def where(self) -> str:
        return f"in the records at {self._store.address}"

    def jobs(self, run: str = "", labels: Mapping[str, str] = NO_LABELS) -> list[LocalAttempt]:
        with store.using(self.home):
            return super().jobs(run, labels)

    def pipelines(self, jobs: Sequence[LocalAttempt]) -> list[PipelineRecord]:  # noqa: ARG002  those of clusters are not stored
        return []

    def find(self, text: str) -> FoundRun[LocalAttempt]:
        with store.using(self.home):
            run = self.resolve(text)
        return self.whole(run)

    def whole(self, run: str) -> FoundRun[LocalAttempt]:
        """Return a run, with all that is stored of it copied."""
        with _readable(), store.using(self.home):
            self._store.copy(self.home, run)
            return super().find(run)

    def reports(self, jobs: Sequence[LocalAttempt], most: int) -> list[pathlib.Path | None]:
        with _readable():
            self._store.copy(self.home, reports_of=[job.attempt.folder for job in jobs[:most]])
        return super().reports(jobs, most)

    def surroundings(self, run: str, jobs: Sequence[LocalAttempt]) -> Surroundings:
        with store.using(self.home):
            return super().surroundings(run, jobs)

    def print_log(self, jobs: Sequence[LocalAttempt], selection: Selection, options: LogOptions) -> int:
        with store.using(self.home):
            return super().print_log(jobs, selection, msgspec.structs.replace(options, follow=False))

    def follow(self, jobs: Sequence[LocalAttempt], selection: Selection, observers: Sequence[Observer]) -> list[Status]:  # noqa: ARG002
        return [job.status for job in jobs]

    def tensorboard(self, jobs: Sequence[LocalAttempt], port: int) -> contextlib.AbstractContextManager[str]:
        """Show event files in buckets, and those that this machine sees; else say which command shows them."""
        for job in jobs:
            logs, identity = job.status.logs, job.status.identity
            if logs and not is_uri(logs) and not os.path.isdir(logs):  # noqa: PTH112
                how = _beside_claim(job, logs)
                raise CommandError(f"run {identity.run}: its event files, {logs}, are not on this machine; {how}")
        return local_tensorboard.opened([job.status for job in jobs], port)

    def commands(self, job: LocalAttempt) -> list[str]:
        return [f"tfsteps logs {shlex.quote(job.status.identity.run)} --from {shlex.quote(self._store.address)}"]


def _beside_claim(job: LocalAttempt, logs: str) -> str:
    """Return which command shows event files of a claim, by the recorded job."""
    with contextlib.suppress(OSError, *NOT_READABLE):
        recorded = typed_json.decode((job.attempt.folder / "job.json").read_bytes(), TrainingJob)
        volumes = [v for v in recorded.volumes if v.pvc and f"{logs}/".startswith(f"{v.mount.rstrip('/')}/")]
        if volumes:
            where = ["--on", "kubernetes", "--namespace", job.status.namespace]
            claim = f"{volumes[0].pvc}:{volumes[0].mount}"
            return f"`{shlex.join(['tfsteps', 'tensorboard', '--log-dir', logs, '--claim', claim, *where])}` shows them"
    return "use TensorBoard where they are"


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except RecordError as error:
        raise CommandError(f"records cannot be read: {error}", ExitCode.PLATFORM) from error
    except OSError as error:
        raise CommandError(f"records cannot be copied to this machine: {error}", ExitCode.PLATFORM) from error


class MergedBackend:
    """The `RunBackend` of a cluster, and of the records of jobs that are not there any more, if it keeps any.

    If the records cannot be read, a warning says so, and the cluster's objects are all that is known.
    """

    def __init__(self, cluster: ClusterBackend, runs: ClusterRuns, location: BackendLocation) -> None:
        """Keep the arguments. The records are looked for once the cluster has answered."""
        self._cluster, self._runs, self._location = cluster, runs, location

    @functools.cached_property
    def _stored(self) -> StoredBackend | None:
        try:
            settings = self._settings()
            return StoredBackend(settings) if settings else None
        except (RecordError, CommandError) as error:
            warn(f"runs whose objects are gone are not shown: {error}")
            return None

    def _settings(self) -> RecordSettings | None:
        if store.RECORDS in os.environ:
            return RecordSettings.of(os.environ[store.RECORDS])
        namespace = self._runs.namespace or self._runs.api.access.namespace
        settings = record_settings.of_namespace(self._runs.api, namespace)
        if settings and settings.folder:  # the same path on this machine may be anything
            raise RecordError(
                f"namespace {namespace} keeps records in {settings.folder} of its launchers' pods; mount that volume "
                f"here, and set {store.RECORDS} to where it is"
            )
        return settings

    @property
    def _copies(self) -> StoredBackend:
        """The records, where a job is of them."""
        assert self._stored
        return self._stored

    @property
    def where(self) -> str:
        return f"{self._cluster.where} or {self._stored.where}" if self._stored else self._cluster.where

    def jobs(self, run: str = "", labels: Mapping[str, str] = NO_LABELS) -> list[ClusterJob | LocalAttempt]:
        on_cluster = self._cluster.jobs(run, labels)
        stored = self._stored.jobs(run, labels) if self._stored else []
        recorded = {job.status.uid: job.status for job in stored}
        there = [_completed(job, recorded.get(job.status.uid)) for job in on_cluster]
        known, namespace = {job.status.uid for job in there}, self._runs.namespace
        gone = [job for job in stored if job.status.uid not in known and namespace in ("", job.status.namespace)]
        return sorted([*there, *gone], key=lambda job: (job.status.created, job.status.identity.attempt))

    def pipelines(self, jobs: Sequence[ClusterJob | LocalAttempt]) -> list[PipelineRecord]:
        return self._cluster.pipelines(_of_cluster(jobs))

    def find(self, text: str) -> FoundRun[ClusterJob | LocalAttempt]:
        jobs = self.jobs()
        pipelines = functools.partial(self.pipelines, jobs)
        try:
            run = run_among(jobs, text, self.where, self._location.options, pipelines)
        except CommandError:
            there = self._cluster.find(text)  # by an operator's name
            return FoundRun(there.id, [*there.jobs], there.pipeline)
        if stored := _of_records(run.jobs):
            copied = self._copies.whole(stored[0].status.identity.run)
            whole = {job.attempt.folder: job for job in copied.jobs}
            jobs = [whole.get(job.attempt.folder, job) if isinstance(job, LocalAttempt) else job for job in run.jobs]
            return FoundRun(run.id, jobs, unread=copied.unread)
        return run

    def recorded(self, job: ClusterJob | LocalAttempt) -> bytes:
        return self._copies.recorded(job) if isinstance(job, LocalAttempt) else self._cluster.recorded(job)

    def record(self, job: ClusterJob | LocalAttempt) -> Record | None:
        """Return the record of a job on this machine, else the stored one."""
        if isinstance(job, LocalAttempt):
            return self._copies.record(job)
        if record := self._cluster.record(job):
            return record
        run, uid = job.status.identity.run, job.status.uid
        stored = self._stored.jobs(run) if self._stored else []
        if not any(other.status.uid == uid for other in stored):
            return None
        whole = self._copies.whole(run).jobs
        return next((self._copies.record(other) for other in whole if other.status.uid == uid), None)

    def reports(self, jobs: Sequence[ClusterJob | LocalAttempt], most: int) -> list[pathlib.Path | None]:
        records = [None if isinstance(job, LocalAttempt) else self._cluster.record(job) for job in jobs]
        stored = {job.status.uid: job for job in self._stored.jobs()} if self._stored else {}
        copies = [
            job if isinstance(job, LocalAttempt) else None if record else stored.get(job.status.uid)
            for job, record in zip(jobs, records, strict=True)
        ]
        copied = iter(self._copies.reports([copy for copy in copies if copy], most) if any(copies) else ())
        return [next(copied) if copy else here for copy, here in zip(copies, reports_of(records), strict=True)]

    def explain(self, job: ClusterJob | LocalAttempt) -> Status:
        return self._copies.explain(job) if isinstance(job, LocalAttempt) else self._cluster.explain(job)

    def surroundings(self, run: str, jobs: Sequence[ClusterJob | LocalAttempt]) -> Surroundings:
        there, gone = _of_cluster(jobs), _of_records(jobs)
        return self._copies.surroundings(run, gone) if gone and not there else self._cluster.surroundings(run, there)

    def follow(
        self, jobs: Sequence[ClusterJob | LocalAttempt], selection: Selection, observers: Sequence[Observer]
    ) -> list[Status]:
        there = _of_cluster(jobs)
        gone = [job.status for job in _of_records(jobs)]
        return [*gone, *(self._cluster.follow(there, selection, observers) if there else ())]

    def now(self) -> float:
        return self._cluster.now()

    def containers(self, job: ClusterJob | LocalAttempt) -> Collection[str]:
        return self._copies.containers(job) if isinstance(job, LocalAttempt) else self._cluster.containers(job)

    def print_log(self, jobs: Sequence[ClusterJob | LocalAttempt], selection: Selection, options: LogOptions) -> int:
        """Print the logs that launchers saved of jobs whose pods are gone, then those of pods."""
        saved, there = [], []
        for job in jobs:
            attempt = job if isinstance(job, LocalAttempt) else self._saved(job)
            if attempt:
                saved.append(attempt)
            elif isinstance(job, ClusterJob):
                there.append(job)
        several = len({job.status.identity.task for job in jobs}) > 1
        options = msgspec.structs.replace(options, name_tasks=several)
        printed = 0
        if saved:
            with local_log.LocalLog(options) as log:
                log.print(saved, None, (), options.tail)
            printed = log.printer.printed
        return printed + (self._cluster.print_log(there, selection, options) if there else 0)

    def _saved(self, job: ClusterJob) -> LocalAttempt | None:
        """Return the record of a job with the log of its launcher, if that has more lines than the pods of the job."""
        if not job.without_pods or (record := self.record(job)) is None or not record.attempt.log.exists():
            return None
        followed = record.status.state.terminal and not may_continue(record.status)
        if not followed and job.pods:
            return None
        if not followed:
            warn(f"the launcher of {job.status.job} did not follow it to its end; lines after its own end are missing")
        return LocalAttempt(record.attempt, record.attempt.alive(), record.status)

    def shell(self, job: ClusterJob | LocalAttempt, replica: str | None, command: Sequence[str]) -> NoReturn:
        [there] = _of_cluster([job])
        self._cluster.shell(there, replica, command)

    def stop(self, jobs: Sequence[ClusterJob | LocalAttempt], *, now: bool) -> None:
        self._cluster.stop(_of_cluster(jobs), now=now)

    def set_paused(self, jobs: Sequence[ClusterJob | LocalAttempt], selection: Selection, *, paused: bool) -> None:
        self._cluster.set_paused(_of_cluster(jobs), selection, paused=paused)

    def tensorboard(
        self, jobs: Sequence[ClusterJob | LocalAttempt], port: int
    ) -> contextlib.AbstractContextManager[str]:
        there, gone = _of_cluster(jobs), _of_records(jobs)
        return self._copies.tensorboard(gone, port) if gone and not there else self._cluster.tensorboard(there, port)

    def tensorboard_at(self, folder: EventFolder, port: int) -> contextlib.AbstractContextManager[str]:
        return self._cluster.tensorboard_at(folder, port)

    def sections(self, job: ClusterJob | LocalAttempt) -> Iterator[Section]:
        return self._copies.sections(job) if isinstance(job, LocalAttempt) else self._cluster.sections(job)

    def commands(self, job: ClusterJob | LocalAttempt) -> list[str]:
        return self._copies.commands(job) if isinstance(job, LocalAttempt) else self._cluster.commands(job)


def _completed(job: ClusterJob, recorded: Status | None) -> ClusterJob:
    """Return a job with what its objects do not have: metrics, code, use and past replicas of its stored record."""
    if recorded is None or not (job.status.state.terminal and recorded.state.terminal):
        return job
    status = msgspec.structs.replace(
        job.status,
        metrics=recorded.metrics,
        code=recorded.code,
        usage=recorded.usage,
        replicas=recorded.replicas or job.status.replicas,
    )
    return msgspec.structs.replace(job, status=status)


def _of_cluster(jobs: Sequence[ClusterJob | LocalAttempt]) -> list[ClusterJob]:
    return [job for job in jobs if isinstance(job, ClusterJob)]


def _of_records(jobs: Sequence[ClusterJob | LocalAttempt]) -> list[LocalAttempt]:
    return [job for job in jobs if isinstance(job, LocalAttempt)]
