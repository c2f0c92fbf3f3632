"""Finds, follows, explains, pauses and stops jobs on a cluster through its API."""

import contextlib
import datetime as dt
import functools
import pathlib
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.base import NO_LABELS, EventFolder, LogOptions, Section
from tfsteps.backends.find import FoundRun, Selection, replace_process, run_among, running_replica, some
from tfsteps.backends.kubernetes import graph, log, tensorboard
from tfsteps.backends.kubernetes.graph import failed_pipelines
from tfsteps.backends.records import Record, record_of, recorded_job, reports_of
from tfsteps.backends.waiting import Changes, print_now, wait
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.outputs import verdict
from tfsteps.console.text import local_time
from tfsteps.engines.registry import find_origin
from tfsteps.kube import client
from tfsteps.kube.backoff import COMMAND_PATIENCE_SECONDS
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import failure_summary
from tfsteps.launcher.recorder import Observer
from tfsteps.runs import store
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.graph import Surroundings
from tfsteps.runs.location import Location
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import Status
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes import dependents
from tfsteps.systems.kubernetes.cleanup.retention import JOB
from tfsteps.systems.kubernetes.follow.pods import Pod
from tfsteps.systems.kubernetes.job_cluster import JobCluster
from tfsteps.systems.kubernetes.preflight.references import QUEUE_LABEL
from tfsteps.systems.kubernetes.query.runs import ClusterJob, ClusterRuns
from tfsteps.systems.kubernetes.query.status import JobPod
from tfsteps.systems.kubernetes.render.command_wrapper import has_code, shell_beside

_TAIL_LINES = 400  # enough for a traceback of TensorFlow's
_LOGS_READ = 8  # of failed replicas: the first one to fail is among the first that are listed as failed
_EVENTS = 30  # the newest are the ones that matter
_HINT_SECONDS = 40.0  # longer than the default grace period
_RESUMABLE = {State.SUSPENDED, State.QUEUED}


@contextlib.contextmanager
def cluster(location: BackendLocation, of_job: JobCluster | None = None) -> Iterator[ClusterRuns]:
    """Yield what has been launched on the cluster of `location`; a refusal of the cluster ends the command.

    Args:
        location: The place; its context may also be a cluster of the platform settings.
        of_job: Another cluster, on which a job of `location` will be; None = that of `location`.
    """
    try:
        cluster_of_jobs = of_job or JobCluster(
            location.context, location.namespace, COMMAND_PATIENCE_SECONDS, launched_from=location.home
        )
        api = client.Api(cluster_of_jobs.api.access, patience=COMMAND_PATIENCE_SECONDS)
        namespace = "" if location.everywhere else cluster_of_jobs.namespace
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

    def __init__(self, runs: ClusterRuns, location: BackendLocation) -> None:
        """Take what has been launched on the cluster of `location`."""
        self._runs = runs
        self._location = location

    @property
    def where(self) -> str:
        return self._runs.where

    def jobs(self, run: str = "", labels: Mapping[str, str] = NO_LABELS) -> list[ClusterJob]:
        return self._runs.jobs(run, labels)

    @property
    def not_understood(self) -> list[str]:
        """The job objects that the last `jobs` left out; whether they have ended is not known."""
        return self._runs.not_understood

    def pipelines(self, jobs: Sequence[ClusterJob]) -> list[PipelineRecord]:
        return failed_pipelines(self._runs.api, self._runs.namespace, jobs)

    def find(self, text: str) -> FoundRun[ClusterJob]:
        """Look among the jobs and the runs without one; if none is called `text`, among the operators' names."""
        jobs = self.jobs()
        pipelines = functools.partial(self.pipelines, jobs)
        try:
            return run_among(jobs, text, self.where, self._location.options, pipelines)
        except CommandError:
            for job in reversed(jobs):
                if text and text == job.kind.other_name(job.item):
                    return run_among(jobs, job.status.identity.run, self.where, self._location.options)
            if clusters := self._runs.other_clusters(text):
                how = " or ".join(f"--context {name}" for name in clusters)
                raise CommandError(f"the jobs of run {text} are on cluster {', '.join(clusters)}; add {how}") from None
            if recorded := _recorded_run(text):
                raise CommandError(f"there is no job {self.where} of run {recorded}") from None
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
        return graph.surroundings(self._runs.api, run, jobs, self._runs.namespace)

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
        replace_by_kubectl(job, replica, command, self._location)

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
        set_paused(self._runs, jobs, self._location, paused=paused)

    def tensorboard(self, jobs: Sequence[ClusterJob], port: int) -> contextlib.AbstractContextManager[str]:
        if len(jobs) == 1 and (link := jobs[0].kind.tensorboard_link(jobs[0].item)):
            return tensorboard.opened_link(self._runs.api, link, jobs[0].status.namespace, port)
        return tensorboard.opened(self._runs.api, functools.partial(tensorboard.request_for_jobs, jobs), port)

    def tensorboard_at(self, folder: EventFolder, port: int) -> contextlib.AbstractContextManager[str]:
        namespace = self._runs.namespace or self._runs.api.access.namespace
        request = functools.partial(tensorboard.request_for_folder, folder, namespace)
        return tensorboard.opened(self._runs.api, request, port)

    def sections(self, job: ClusterJob) -> Iterator[Section]:
        return debug_sections(self._runs, job)

    def commands(self, job: ClusterJob) -> list[str]:
        return debug_commands(job, self._location)

    def _wait(self, job: ClusterJob) -> None:
        def waiting_for() -> str:
            pods = ", ".join(str(job_pod.replica) for job_pod in self._runs.left(job))
            return pods and f"stopping {job.status.identity.task}: waiting for {pods}"

        wait(waiting_for, print_now)
        stopped = job.deleted(stopped=True).status
        stopped.ended = time.time()
        shown = f"; `tfsteps show {stopped.identity.run}` shows its record" if record_of(stopped) else ""
        stopped.message = f"the job was deleted{shown}"
        print(verdict(stopped))


def _recorded_run(text: str) -> str:
    """Return the run of this machine's records whose id is or begins with `text`, and where they are; empty = none."""
    ids = [run for run in store.runs() if text and run.startswith(text)]
    if not (run := text if text in ids else ids[0] if len(ids) == 1 else ""):
        return ""
    with contextlib.suppress(OSError):
        attempts = (attempt.status() for attempt in reversed(store.attempts(run)))
        if last := next((status for status in attempts if status.location == Location.KUBERNETES), None):
            launched = f"it was launched in namespace {last.namespace}, and recorded here as {last.state}"
            return f"{run}: {launched}. `stop` and `clear` delete jobs; `tfsteps show {run}` shows the record"
    return ""


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


def debug_sections(runs: ClusterRuns, job: ClusterJob) -> Iterator[Section]:
    """Yield the conditions of the job object, the pods that wait, and the newest events."""
    conditions = job.item.get("status", {}).get("conditions") or []
    rows = [(condition.get("lastTransitionTime", ""), condition) for condition in conditions]
    yield "conditions", [[_local(at), f"{item['type']}={item['status']}", *_why(item)] for at, item in rows]
    waiting = [job_pod for job_pod in job.pods if job_pod.pod.state is ReplicaState.PENDING and job_pod.pod.message]
    yield "waiting", [[str(job_pod.replica), job_pod.pod.reason, job_pod.pod.message] for job_pod in waiting]
    events = runs.events(job)[-_EVENTS:]
    yield "events", [[_local(at), event["type"], _object(event), *_why(event)] for at, event in events]


def debug_commands(job: ClusterJob, location: BackendLocation) -> list[str]:
    """Return a shell in a replica that runs, or what is known of one that does not; and what is known of the job."""
    status, container = job.status, job.kind.container
    kubectl = functools.partial(location.kubectl, status.namespace)
    running = [job_pod for job_pod in job.pods if job_pod.pod.state is ReplicaState.RUNNING]
    lines = [kubectl("describe", job.kind.resource.plural, status.job)]
    if running:
        shell = shell_beside(job.kind.shell, code=has_code(running[0].item))
        lines.insert(0, kubectl("exec", "-it", running[0].pod.name, "-c", container, "--", *shell))
    elif job.pods:
        lines.insert(0, kubectl("describe", "pod", job.pods[0].pod.name))
    if restarted := [job_pod for job_pod in job.pods if job_pod.pod.restarts]:
        lines.append(kubectl("logs", "--previous", restarted[0].pod.name, "-c", container))
    follow = [] if status.state.terminal else ["--follow"]
    return [*lines, shlex.join(["tfsteps", "logs", status.identity.run, *follow]) + location.options]


def _why(item: Mapping[str, Any]) -> tuple[str, str]:
    return item.get("reason") or "", item.get("message") or ""


def _object(event: Mapping[str, Any]) -> str:
    about, count = event["involvedObject"], event.get("count") or 1
    return f"{about['kind'].lower()}/{about['name']}" + (f" (x{count})" if count > 1 else "")


def _local(stamp: str) -> str:
    return local_time(dt.datetime.fromisoformat(stamp).timestamp()) if stamp else ""


def replace_by_kubectl(
    job: ClusterJob, replica: str | None, command: Sequence[str], location: BackendLocation
) -> NoReturn:
    """Replace this process by `kubectl exec`: it has the protocol, and the user's log-in plugins.

    Raises:
        CommandError: There is no such replica, it does not run, or kubectl is missing.
    """
    name, _, container = (replica or "").partition("/")
    running = running_replica(job.status, name or None)
    pods = [item for item in job.pods if str(item.replica) == running.name]
    job_pod = next((item for item in reversed(pods) if item.pod.state is ReplicaState.RUNNING), None)
    if job_pod is None:  # its operator counts one as running that is being replaced
        raise CommandError(f"{running.name} has no running pod now; try again, or choose another replica")
    pod = job_pod.pod
    containers = [item.name for item in pod.containers if item.name and not item.ended]
    if container and container not in containers:
        there = some(containers) or "none"
        raise CommandError(
            f"{running.name} has no running container {container!r} beside its program; there is {there}"
        )
    code = has_code(job_pod.item)
    shell = ("sh",) if container else shell_beside(job.kind.shell, code=code)
    if command:
        shell = command if len(shell) == 1 else (*shell, shell[0], *command)
    terminal = "-it" if sys.stdin.isatty() and sys.stdout.isatty() else "-i"
    words = (terminal, pod.name, "-c", container or job.kind.container, "--", *shell)
    if shutil.which("kubectl") is None:
        line = location.kubectl(job.status.namespace, "exec", *words)
        raise CommandError(f"kubectl is not installed, or not in PATH; install it, then run this again, or: {line}")
    replace_process(location.kubectl_words(job.status.namespace, "exec", *words))


def set_paused(runs: ClusterRuns, jobs: Sequence[ClusterJob], location: BackendLocation, *, paused: bool) -> None:
    """Pause or resume those of a run's jobs that can be. Errors are raised before anything is changed.

    Raises:
        CommandError: None can be.
        DemoError: One is a demo.
    """
    for job in jobs:
        job.check_changeable()
    problems = {job.status.uid: next(_refusals(job, paused=paused), "") for job in jobs}
    able = [job for job in jobs if not problems[job.status.uid]]
    refusals = [f"task {job.status.identity.task} {why}" for job in jobs if (why := problems[job.status.uid])]
    if not able:
        raise CommandError(f"run {jobs[0].status.identity.run}: {'; '.join(refusals)}")
    if not paused:
        for job in able:
            _wait_until_deleted(runs, job)
    for job in able:  # before anything is printed: standard output may be closed
        patches = job.kind.pause(job.item, paused=paused)
        dependents.apply(runs.api, patches, job.status.namespace, job.status.uid)
    for refusal in refusals:
        print_now(refusal)
    for job in able:
        if paused:
            _wait_until_paused(runs, job)
        print(_done(job, location, paused=paused))


def _refusals(job: ClusterJob, *, paused: bool) -> Iterator[str]:
    """Yield why a job cannot be paused or resumed, as what comes after `task NAME `; nothing = it can."""
    state, run = job.status.state, job.status.identity.run
    if state.terminal:
        yield f"has ended: {verdict(job.status)}"
    if queue := (job.item["metadata"].get("labels") or {}).get(QUEUE_LABEL):
        yield f"is controlled by its queue {queue}, which would revert the change; `tfsteps stop {run}` ends it"
    if paused and state is State.SUSPENDED:
        yield "is paused already"
    if not paused and state not in _RESUMABLE:
        yield f"is not paused: it is {state}"
    if not job.kind.pause(job.item, paused=paused):
        again = f"`tfsteps stop {run}` ends it, and `tfsteps run --run-id {run}` makes another attempt"
        yield f"cannot be paused: {job.kind.operator} has nothing for it; {again}"


def _wait_until_paused(runs: ClusterRuns, job: ClusterJob) -> None:
    """Wait until no pod of a job runs or is being deleted; those that had ended before may stay."""
    hint = f"still waiting; is {job.kind.operator} running? Ctrl-C ends the wait alone"
    _wait(runs, job, "pausing", hint, lambda pod: pod.deleting or not pod.ended)


def _wait_until_deleted(runs: ClusterRuns, job: ClusterJob) -> None:
    """Wait for pods that are being deleted: an operator may take one for a replica that failed after the resume."""
    hint = "still waiting; is the node of these pods ready? Ctrl-C ends the wait, and the job stays paused"
    _wait(runs, job, "resuming", hint, lambda pod: pod.deleting)


def _wait(runs: ClusterRuns, job: ClusterJob, doing: str, hint: str, stays: Callable[[Pod], bool]) -> None:
    """Wait until no pod of a job is left for which `stays` returns True, and print the names of its replicas."""

    def waiting_for() -> str:
        pods = ", ".join(str(job_pod.replica) for job_pod in runs.left(job) if stays(job_pod.pod))
        return pods and f"{doing} {job.status.identity.task}: waiting for {pods}"

    wait(waiting_for, print_now, hint, _HINT_SECONDS)


def _done(job: ClusterJob, location: BackendLocation, *, paused: bool) -> str:
    identity = job.status.identity
    if paused:
        resume = f"`tfsteps resume {identity.run} --task {identity.task}{location.options}`"
        return f"{identity.task} is paused; {resume} starts it again"
    show = f"`tfsteps show {identity.run}{location.options}`"
    return f"{identity.task} is resumed; {show} tells when its replicas have started"
