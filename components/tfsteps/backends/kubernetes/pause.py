"""Pauses and resumes jobs on a cluster."""

from collections.abc import Callable, Iterator, Sequence

from tfsteps.backends.place import Place
from tfsteps.backends.waiting import print_now, wait
from tfsteps.console.errors import CommandError
from tfsteps.console.outputs import verdict
from tfsteps.runs.events import State
from tfsteps.systems.kubernetes import dependents
from tfsteps.systems.kubernetes.follow.pods import Pod
from tfsteps.systems.kubernetes.preflight.references import QUEUE_LABEL
from tfsteps.systems.kubernetes.query.runs import ClusterJob, ClusterRuns

_HINT_SECONDS = 40.0  # longer than the default grace period
_RESUMABLE = {State.SUSPENDED, State.QUEUED}


def set_paused(runs: ClusterRuns, jobs: Sequence[ClusterJob], place: Place, *, paused: bool) -> None:
    """Pause or resume those of a run's jobs that can be. Errors are raised before anything is changed.

    Raises:
        CommandError: None can be.
        DemoError: One is a demo.
    """
    for job in jobs:
        job.check_changeable()
    problems = {job.status.uid: next(_problems(job, paused=paused), "") for job in jobs}
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
        print(_done(job, place, paused=paused))


def _problems(job: ClusterJob, *, paused: bool) -> Iterator[str]:
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


def _done(job: ClusterJob, place: Place, *, paused: bool) -> str:
    identity = job.status.identity
    if paused:
        resume = f"`tfsteps resume {identity.run} --task {identity.task}{place.options}`"
        return f"{identity.task} is paused; {resume} starts it again"
    show = f"`tfsteps show {identity.run}{place.options}`"
    return f"{identity.task} is resumed; {show} tells when its replicas have started"
