"""`tfsteps pause` and `tfsteps resume`: takes the replicas of a job away for a while, and starts them again."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tfsteps.cli.backends.base import backend, find_jobs
from tfsteps.cli.backends.find import find_attempts, find_run, read
from tfsteps.cli.backends.kubernetes import ClusterBackend
from tfsteps.cli.backends.place import AllNamespaces, Context, Namespace, On, OnOption, Place, cluster, located
from tfsteps.cli.commands.runs import RunId, Task
from tfsteps.cli.errors import CommandError
from tfsteps.cli.watch import POLL_SECONDS
from tfsteps.console.outputs import verdict
from tfsteps.runs.events import State
from tfsteps.systems import registry

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.query.runs import Job, Runs

_HINT_SECONDS = 40.0  # longer than the default grace period
_HELD = {State.SUSPENDED, State.QUEUED}


def pause(
    run: RunId,
    *,
    task: Task = None,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Stop the replicas but keep the job, and wait until they are gone.

    The job stays, its launcher waits, and its deadlines go on; `tfsteps resume` starts the replicas again, from their
    last checkpoint if they write any.
    """
    _change(run, task, located(run, task, on, context, namespace, everywhere=all_namespaces), paused=True)


def resume(
    run: RunId,
    *,
    task: Task = None,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Start the replicas of a job again that is paused, or was created suspended."""
    _change(run, task, located(run, task, on, context, namespace, everywhere=all_namespaces), paused=False)


def _change(run: str, task: str | None, place: Place, *, paused: bool) -> None:
    """Pause or resume those jobs of a run that can be. CommandError if none can, before anything is changed."""
    if place.on is not On.KUBERNETES:
        name, where = _run_elsewhere(run, task, place)
        _change_elsewhere(name, task, where, paused=paused)
        return
    from tfsteps.systems.kubernetes import dependents  # noqa: PLC0415  local runs need no HTTP

    with cluster(place) as there:
        jobs = find_jobs(ClusterBackend(there), place, run, task)
        against = {job.status.uid: next(_against(job, paused=paused), "") for job in jobs}
        said = [f"task {job.status.identity.task} {against[job.status.uid]}" for job in jobs if against[job.status.uid]]
        if len(said) == len(jobs):
            raise CommandError(f"run {jobs[0].status.identity.run}: {'; '.join(said)}")
        meant = [job for job in jobs if not against[job.status.uid]]
        for job in meant:  # before anything is printed: standard output may be closed
            dependents.apply(there.api, job.kind.pause(job.item, paused=paused), job.status.namespace, job.status.uid)
        for line in said:
            print(line, flush=True)
        for job in meant:
            if paused:
                _wait(there, job)
            print(_done(job, place, paused=paused))


@runtime_checkable
class _Pausable(Protocol):
    """A job system that is neither of this machine nor of a cluster, and can pause the jobs of a run."""

    def pause(self, run: str) -> list[str]:
        """Pause them, and return the names of those that were not paused yet."""

    def resume(self, run: str) -> list[str]:
        """Let those that are paused go on, and return their names."""


def _run_elsewhere(run: str, task: str | None, place: Place) -> tuple[str, set[str]]:
    """Return the id of a run, and the names of the job systems that its jobs are on. CommandError for a cluster's."""
    if place.on is On.HAI:
        with backend(place) as there:
            return find_jobs(there, place, run, task)[0].status.identity.run, {On.HAI.value}
    name = find_run(run)
    statuses = [status for each in find_attempts(name, task) if (status := read(each))]
    if any(status.namespace for status in statuses):
        raise CommandError(f"run {name}: its jobs are on a cluster; add --on kubernetes")
    return name, {status.system for status in statuses}


def _change_elsewhere(run: str, task: str | None, where: set[str], *, paused: bool) -> None:
    """Pause or resume a run on the job systems `where`. CommandError if it cannot be."""
    named = {name: registry.get(name) for name in sorted(where) if name in registry.available()}
    able = {name: system for name, system in named.items() if isinstance(system, _Pausable)}
    if not able:
        stop = f"`tfsteps stop {run}` ends them"
        raise CommandError(f"run {run}: local runs cannot be paused; {stop}")
    for name, system in able.items():
        if task is not None:
            raise CommandError(f"--task {task}: {name} pauses and resumes whole runs; leave it out")
        changed = system.pause(run) if paused else system.resume(run)
        if not changed:
            raise CommandError(f"run {run}: nothing of it {'runs' if paused else 'is paused'} on {name}")
        print(f"{', '.join(changed)} {'paused' if paused else 'resumed'}")


def _against(job: "Job", *, paused: bool) -> Iterator[str]:
    """Yield why a job can be neither paused nor resumed, as what comes after `task NAME `; nothing = it can."""
    from tfsteps.systems.kubernetes.preflight.references import QUEUE_LABEL  # noqa: PLC0415

    state, name = job.status.state, job.status.identity.run
    if state.terminal:
        yield f"has ended: {verdict(job.status)}"
    if queue := (job.item["metadata"].get("labels") or {}).get(QUEUE_LABEL):
        yield f"is held back and let in by its queue {queue}, which would undo it; `tfsteps stop {name}` ends it"
    if paused and state is State.SUSPENDED:
        yield "is paused already"
    if not paused and state not in _HELD:
        yield f"is not paused: it is {state}"
    if not job.kind.pause(job.item, paused=paused):
        again = f"`tfsteps stop {name}` ends it, and `tfsteps run --run-id {name}` makes another attempt"
        yield f"cannot be paused: {job.kind.operator} has nothing for it; {again}"


def _wait(runs: "Runs", job: "Job") -> None:
    """Wait until no replica of a job runs any more, telling whom it waits for."""
    begun, told, hinted = time.monotonic(), "", False
    while left := [each for each in runs.left(job) if not each.pod.ended]:
        text = f"pausing {job.status.identity.task}: waiting for {', '.join(str(each.replica) for each in left)}"
        if text != told:
            print(text, flush=True)
            told = text
        if not hinted and time.monotonic() - begun > _HINT_SECONDS:
            print(f"still waiting; is {job.kind.operator} running? Ctrl-C ends the wait alone", flush=True)
            hinted = True
        time.sleep(POLL_SECONDS)


def _done(job: "Job", place: Place, *, paused: bool) -> str:
    who = job.status.identity
    if paused:
        return f"{who.task} is paused; `tfsteps resume {who.run} --task {who.task}{place.options}` starts it again"
    return f"{who.task} is resumed; `tfsteps show {who.run}{place.options}` tells when its replicas have started"
