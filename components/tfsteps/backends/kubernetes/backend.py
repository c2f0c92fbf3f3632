"""Finds, follows, explains and stops jobs on a cluster through its API."""

import contextlib
import functools
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from tfsteps.backends.base import NO_LABELS, EventFolder, LogOptions, Section
from tfsteps.backends.find import FoundRun, Selection, run_among
from tfsteps.backends.kubernetes import debug, graph, log, pause, shell, tensorboard
from tfsteps.backends.kubernetes.pipelines import failed_pipelines
from tfsteps.backends.place import Place
from tfsteps.backends.records import Record, record_of, recorded_job, reports_of
from tfsteps.backends.waiting import Changes, print_now, wait
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.outputs import verdict
from tfsteps.engines.registry import find_origin
from tfsteps.kube import client
from tfsteps.kube.backoff import COMMAND_PATIENCE_SECONDS
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import failure_summary
from tfsteps.launcher.recorder import Observer
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.graph import Surroundings
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import Status
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.cleanup.retention import JOB
from tfsteps.systems.kubernetes.follow.pods import Pod
from tfsteps.systems.kubernetes.job_cluster import JobCluster
from tfsteps.systems.kubernetes.query.runs import ClusterJob, ClusterRuns
from tfsteps.systems.kubernetes.query.status import JobPod

_TAIL_LINES = 400  # enough for a traceback of TensorFlow's
_LOGS_READ = 8  # of failed replicas: the first one to fail is among the first that are listed as failed


@contextlib.contextmanager
def cluster(place: Place, of_job: JobCluster | None = None) -> Iterator[ClusterRuns]:
    """Yield what has been launched on the cluster of `place`; a refusal of the cluster ends the command.

    Args:
        place: The place; its context may also be a cluster of the platform settings.
        of_job: Another cluster, on which a job of `place` will be; None = that of `place`.
    """
    try:
        found = of_job or JobCluster(place.context, place.namespace, COMMAND_PATIENCE_SECONDS, launched_from=place.home)
        api = client.Api(found.api.access, patience=COMMAND_PATIENCE_SECONDS)
        namespace = "" if place.everywhere else found.namespace
    except LaunchError as error:
        raise CommandError(str(error), ExitCode.PLATFORM if error.retryable else ExitCode.USAGE) from error
    try:
        yield ClusterRuns(api, registry.kinds(), namespace, find_origin, warn)
    except AccessError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise CommandError(str(error), ExitCode.PLATFORM if error.unavailable else ExitCode.USAGE) from error


class ClusterBackend:
    """The `RunBackend` of a cluster: job objects, their pods and events."""

    def __init__(self, runs: ClusterRuns, place: Place) -> None:
        """Take what has been launched on the cluster of `place`."""
        self._runs = runs
        self._place = place

    @property
    def where(self) -> str:
        return self._runs.where

    def jobs(self, run: str = "", labels: Mapping[str, str] = NO_LABELS) -> list[ClusterJob]:
        return self._runs.jobs(run, labels)

    def pipelines(self, jobs: Sequence[ClusterJob]) -> list[PipelineRecord]:
        return failed_pipelines(self._runs.api, self._runs.namespace, jobs)

    def find(self, text: str) -> FoundRun[ClusterJob]:
        """Look among the jobs; if no run is called `text`, among its operators' names and Workflows without a job."""
        jobs = self.jobs()
        try:
            return run_among(jobs, text, self.where, self._place.options)
        except CommandError:
            for job in reversed(jobs):
                if text and text == job.kind.other_name(job.item):
                    return run_among(jobs, job.status.identity.run, self.where, self._place.options)
            for record in reversed(self.pipelines(jobs)):
                if text in (record.run, record.workflow, record.pipeline):
                    return FoundRun(record.run, [], record)
            if clusters := self._runs.other_clusters(text):
                how = " or ".join(f"--context {name}" for name in clusters)
                raise CommandError(f"the jobs of run {text} are on cluster {', '.join(clusters)}; add {how}") from None
            raise

    def recorded(self, job: ClusterJob) -> bytes:
        """Return what this machine recorded, else the job's annotation."""
        if (record := record_of(job.status)) and (text := recorded_job(record.attempt)):
            return text
        return str((job.item["metadata"].get("annotations") or {}).get(JOB, "")).encode()

    def record(self, job: ClusterJob) -> Record | None:
        return record_of(job.status)

    def reports(self, jobs: Sequence[ClusterJob], most: int) -> list[pathlib.Path | None]:  # noqa: ARG002  they are here
        return reports_of(map(self.record, jobs))

    def explain(self, job: ClusterJob) -> Status:
        """Read the log of the replicas that failed, for the failure summary."""
        status = job.status
        if status.state in (State.FAILED, State.LOST):
            tails = _tails(self._runs, job)
            status.failure = failure_summary(status, lambda source, _: tails.get(source, []))
        return status

    def surroundings(self, run: str, jobs: Sequence[ClusterJob]) -> Surroundings:
        return graph.surroundings(self._runs.api, run, jobs)

    def follow(self, jobs: Sequence[ClusterJob], selection: Selection, observers: Sequence[Observer]) -> list[Status]:
        """Follow the jobs until they have ended or are deleted."""
        changes = Changes(observers)
        last = {job.status.uid: job for job in jobs}
        for snapshot in self._runs.follow(jobs[0].status.identity.run):
            current = {job.status.uid: job for job in snapshot}
            last = {uid: current.get(uid) or job.deleted() for uid, job in last.items()}
            last |= {job.status.uid: job for job in selection.choose(snapshot)}
            for job in last.values():
                changes.report(job.status)
            if all(job.status.state.terminal for job in last.values()):
                break
        return [self.explain(job) for job in selection.choose([*last.values()])]

    def now(self) -> float:
        return self._runs.api.server_time() or time.time()

    def containers(self, job: ClusterJob) -> list[str]:
        return log.containers(job)

    def print_log(self, jobs: Sequence[ClusterJob], selection: Selection, options: LogOptions) -> int:
        lines = log.ClusterLog(self._runs, jobs, options)
        lines.print(options.tail)
        if options.follow:
            lines.follow(selection)
        return lines.printer.printed

    def shell(self, job: ClusterJob, replica: str | None, command: Sequence[str]) -> NoReturn:
        shell.replace_by(job, replica, command, self._place)

    def stop(self, jobs: Sequence[ClusterJob], *, now: bool) -> None:
        """Delete the job objects, and wait until their pods are gone."""
        running = [job for job in jobs if not job.status.state.terminal]
        for job in running:  # all, before anything is stopped
            job.check_changeable()
        for job in running:
            self._runs.stop(job, now=now)
        for job in jobs:
            if job not in running:
                print(f"already ended: {verdict(job.status)}")
        for job in running:
            self._wait(job)

    def set_paused(self, jobs: Sequence[ClusterJob], selection: Selection, *, paused: bool) -> None:  # noqa: ARG002
        pause.set_paused(self._runs, jobs, self._place, paused=paused)

    def tensorboard(self, jobs: Sequence[ClusterJob], port: int) -> contextlib.AbstractContextManager[str]:
        if len(jobs) == 1 and (link := jobs[0].kind.tensorboard_link(jobs[0].item)):
            return tensorboard.opened_link(self._runs.api, link, jobs[0].status.namespace, port)
        return tensorboard.opened(self._runs.api, functools.partial(tensorboard.request_for_jobs, jobs), port)

    def tensorboard_at(self, folder: EventFolder, port: int) -> contextlib.AbstractContextManager[str]:
        namespace = self._runs.namespace or self._runs.api.access.namespace
        request = functools.partial(tensorboard.request_for_folder, folder, namespace)
        return tensorboard.opened(self._runs.api, request, port)

    def sections(self, job: ClusterJob) -> Iterator[Section]:
        return debug.sections(self._runs, job)

    def commands(self, job: ClusterJob) -> list[str]:
        return debug.commands(job, self._place)

    def _wait(self, job: ClusterJob) -> None:
        def waiting_for() -> str:
            pods = ", ".join(str(job_pod.replica) for job_pod in self._runs.left(job))
            return pods and f"stopping {job.status.identity.task}: waiting for {pods}"

        wait(waiting_for, print_now)
        stopped = job.deleted(stopped=True).status
        stopped.ended = time.time()
        print(verdict(stopped))


def _tails(runs: ClusterRuns, job: ClusterJob) -> dict[str, list[str]]:
    """Return the last lines of the replicas that failed, as far as their pods are still there.

    Of a restarted replica, those of the incarnation that failed.
    """
    tails = {}
    for job_pod in sorted(filter(_failure, job.pods), key=_failed_at)[:_LOGS_READ]:
        failed = next((container for container in job_pod.pod.containers if container.name == job_pod.pod.failed), None)
        restarted = job_pod.pod.state is ReplicaState.RUNNING
        blocks = runs.log(job, job_pod, tail=_TAIL_LINES, previous=restarted, current=not restarted, container=failed)
        source = f"{job_pod.replica}/{job_pod.pod.failed}" if job_pod.pod.failed else str(job_pod.replica)
        tails[source] = [text.decode(errors="replace") for block in blocks for text in block.texts]
    return tails


def _failure(job_pod: JobPod) -> Pod | None:
    """Return a pod as it was when its replica failed last; None = it has not failed."""
    seen = job_pod.pod if job_pod.pod.state is ReplicaState.FAILED else job_pod.pod.earlier
    return seen if seen and seen.state is ReplicaState.FAILED else None


def _failed_at(job_pod: JobPod) -> float:
    failure = _failure(job_pod)
    return (failure and failure.finished) or job_pod.created
