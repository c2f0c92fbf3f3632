"""What `tfsteps run` will do, checked as far as possible before anything is created, and its launch."""

import contextlib
import pathlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from tfsteps.api.job_input import JobInput, check, find_system, with_settings
from tfsteps.backends.backend_location import AUTO, BackendLocation, on_of
from tfsteps.backends.base import RunBackend
from tfsteps.backends.find import run_id_problem, task_problem
from tfsteps.backends.open import open_backend
from tfsteps.backends.records import record_of
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.lifecycle import launch
from tfsteps.launcher.recorder import Observer
from tfsteps.runs import code_archive, removal, store
from tfsteps.runs.code_archive import CodeError
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity, new_run_id
from tfsteps.runs.location import Location
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.runs.status import Status, may_continue
from tfsteps.runs.survivors import left_by_earlier
from tfsteps.spec import CodeSource, TrainingJob
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError, OnCluster, System

_LEFT_OUT_SHOWN = 4


class Plan(msgspec.Struct, frozen=True):
    """What will be run, and where; its relative paths start from `base_dir`. `warnings` are those of the system."""

    job: TrainingJob
    identity: Identity
    system: System
    base_dir: pathlib.Path
    paths: OutputPaths
    warnings: Sequence[str]


def choose(on: str | None, system: str | None, context: str, namespace: str) -> tuple[str, BackendLocation]:
    """Return the name of the job system that the options choose, and its place.

    Raises:
        CommandError: They contradict one another.
    """
    if system is None:
        on = on or Location.LOCAL
        # a platform has the name of its job system
        return AUTO if on == Location.KUBERNETES else on, BackendLocation(on, context, namespace)
    its = Location.KUBERNETES if system == AUTO else on_of(registry.location(system))
    if on not in (None, its):
        raise CommandError(f"--system {system} is not --on {on}; leave one out")
    return system, BackendLocation(its, context, namespace)


def make_plan(
    job_input: JobInput,
    name: str,
    location: BackendLocation,
    run_id: str | None,
    task: str | None,
    *,
    adopt: bool = False,
    dry_run: bool = False,
    change: Callable[[TrainingJob, str], TrainingJob] | None = None,
    replace: bool | None = None,
) -> Plan:
    """Check a job, and return what will be run.

    Args:
        job_input: The job.
        name: Of the job system.
        location: Where to run it.
        run_id: Id of the run; None = a new one.
        task: Name of the task; None = the job's.
        adopt: Take over a job that outlived its launcher.
        dry_run: Ask no cluster for anything.
        change: Given the job and the job system's name, returns what is to run in its place; None = the job itself.
        replace: Whether the caller stops an attempt that still runs before it launches this one; None = it cannot.

    Raises:
        SpecError: The job is wrong, this system cannot run it, or the platform's settings refuse it.
        LaunchError: Whether the platform has settings is not known.
        CommandError: Something else is wrong, the code cannot be uploaded, or the task is running already.
    """
    where = {"context": location.context, "namespace": location.namespace} if location.on == Location.KUBERNETES else {}
    job = job_input.job
    system = _discovered_system(location, job, dry_run=dry_run) if name == AUTO else find_system(name, **where)
    job = change(job, system.name) if change else job
    job = with_settings(system, job, dry_run=dry_run)
    check(job_input, system, job)
    if source := job.code_source:
        job = msgspec.structs.replace(job, code=_packed(source, job_input.base_dir, all_left_out=dry_run))
    if run_id is not None and (wrong := run_id_problem(run_id)):
        raise CommandError(f"--run-id {run_id!r} {wrong}")
    if task is not None and (wrong := task_problem(task)):
        raise CommandError(f"--task {task!r} {wrong}")
    run, task = new_run_id(job.name) if run_id is None else run_id, job.name if task is None else task
    attempt = 0
    if run_id is not None:  # a new run has no earlier attempt anywhere
        _check_changeable(run, task)
        attempt = _next_attempt(
            run, task, BackendLocation() if dry_run else location, system, adopt=adopt, replace=replace
        )
    identity = Identity(run=run, task=task, attempt=attempt)
    here = job_input.base_dir
    if location.on == Location.KUBERNETES and not dry_run and (source := job.code_source) and source.bucket:
        try:
            if not source.claim and code_archive.upload(source):
                say(f"code uploaded to {code_archive.url_of(source)}")
        except (CodeError, OSError) as error:
            raise CommandError(str(error)) from error
    if location.on == Location.KUBERNETES and (source := job.code_source) and source.claim:
        verb = "would be" if dry_run else "is"
        say(f"code {verb} stored as {code_archive.url_of(source)} before the job is created")
    return Plan(job, identity, system, here, system.output_paths(job, identity, here), system.warnings(job))


def _check_changeable(run: str, task: str) -> None:
    """Raise CommandError if the run gets no further attempt: it is a demo, or an earlier one left processes."""
    try:
        removal.check_changeable(run)
        rest, left = left_by_earlier(run, task)
    except removal.InUseError as error:
        raise CommandError(f"run {run} gets no further attempt: {error.why}, or choose another --run-id") from error
    except OSError as error:
        raise CommandError(f"run {run} cannot be read: {error}; choose another --run-id") from error
    if left.yes:
        raise CommandError(f"run {run}: {rest}; `tfsteps stop {shlex.quote(run)}` ends that")
    if left.unknown:
        warn(f"whether replicas of an earlier attempt still run is not known: their launcher was killed, {left.why}")


def _packed(source: CodeSource, base_dir: pathlib.Path, *, all_left_out: bool) -> CodeSource:
    """Return the source of a job's code with its digest; the code is packed. Print what was, and what was left out."""
    try:
        source, packed = code_archive.resolve(source, base_dir)
    except CodeError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"the run folder cannot be used: {error}; set TFSTEPS_HOME", ExitCode.PLATFORM) from error
    if packed:
        left_out = packed.left_out if all_left_out else packed.left_out[:_LEFT_OUT_SHOWN]
        more = f" and {len(packed.left_out) - len(left_out)} more" if len(left_out) < len(packed.left_out) else ""
        say(f"code {source.folder}: {packed}; left out: {', '.join(left_out) or 'nothing'}{more}")
    return source


def _discovered_system(location: BackendLocation, job: TrainingJob, *, dry_run: bool) -> System:
    """Return the job system whose API the job's cluster serves, and print why. A dry run makes no request."""
    from tfsteps.systems.kubernetes.job_cluster import JobCluster  # noqa: PLC0415  local runs need no cluster
    from tfsteps.systems.kubernetes.preflight import discovery  # noqa: PLC0415

    of_job = JobCluster(location.context, location.namespace)
    if dry_run:
        choice = discovery.Choice(discovery.DEFAULT, "a dry run asks no cluster what it serves")
    else:
        from tfsteps.backends.kubernetes.backend import cluster  # noqa: PLC0415  a dry run needs no HTTP

        of_job.with_settings(job, registry.options())
        with cluster(location, of_job) as runs:
            choice = discovery.choose(runs.api, runs.namespace, registry.discoverable())
    say(f"job system {choice.sentence('--system NAME')}")
    system = find_system(choice.system, context=location.context, namespace=location.namespace)
    if isinstance(system, OnCluster):
        system.cluster = of_job
    return system


@contextlib.contextmanager
def _backend(location: BackendLocation, system: System) -> Iterator[RunBackend[Any]]:
    """Yield the backend of the place where the jobs of a system are: a job may name another cluster."""
    if location.on != Location.KUBERNETES or not (isinstance(system, OnCluster) and system.cluster.name):
        with open_backend(location) as backend:
            yield backend
        return
    from tfsteps.backends.kubernetes.backend import ClusterBackend, cluster  # noqa: PLC0415

    with cluster(location, system.cluster) as runs:
        yield ClusterBackend(runs, location)


def _next_attempt(
    run: str, task: str, location: BackendLocation, system: System, *, adopt: bool, replace: bool | None
) -> int:
    """Return the attempt's number: one more than all known here and in `location`, or that of a job to adopt.

    With `adopt` that is a job that runs, or whose end has not been reported here: a new attempt would train again.
    """
    if not replace and any(earlier.alive().yes for earlier in store.attempts(run, task)):
        raise _not_ended(run, task, "is running already", "", replace)
    number = store.next_attempt(run, task)
    with _backend(location, system) as backend:
        jobs = [job.status for job in backend.jobs(run) if job.status.identity.task == task]
        unclear = _not_understood(backend) if location.on == Location.KUBERNETES and not replace else []
    if unclear:
        why = f"{', '.join(unclear)} is of this run, and its content is not understood"
        clear = f"`tfsteps clear {run}{location.options}` removes it"
        instead = clear if replace is None else f"{clear}, and --replace does so first"
        raise CommandError(f"run {run}: whether task {task} is running already is not known: {why}; {instead}")
    earlier: list[Status] = sorted(jobs, key=lambda status: status.identity.attempt)
    running = [status for status in earlier if not status.state.terminal]
    if running and not replace:
        if adopt and running[-1].system != system.name:
            other, named = running[-1].system, system.name
            raise CommandError(f"run {run}: task {task} runs on {other}, not on {named}; --system {other} adopts it")
        other_cluster = system.cluster.name if isinstance(system, OnCluster) else ""
        there = msgspec.structs.replace(location, context=other_cluster or location.context)
        state = running[-1].state
        if adopt:
            if state is State.SUSPENDED:
                warn(
                    f"task {task} is suspended; `tfsteps resume {run} --task {task}{there.options}` starts its replicas"
                )
            return running[-1].identity.attempt
        raise _not_ended(run, task, f"has a job already, which is {state}", there.options, replace)
    if adopt and earlier and (newest := earlier[-1]).identity.attempt + 1 >= number and not _reported(newest):
        return newest.identity.attempt
    return max([number, *(status.identity.attempt + 1 for status in earlier)])


def _not_understood(backend: RunBackend[Any]) -> list[str]:
    """Return the job objects of the run of which a cluster's backend cannot tell whether they have ended."""
    from tfsteps.backends.kubernetes.backend import ClusterBackend  # noqa: PLC0415  a dry run needs no HTTP

    return backend.not_understood if isinstance(backend, ClusterBackend) else []


def _reported(ended: Status) -> bool:
    """Return whether a launcher of this machine has recorded the end of a job. Of other machines that is not known."""
    record = record_of(ended)
    return record is not None and record.status.state.terminal and not may_continue(record.status)


def _not_ended(run: str, task: str, why: str, options: str, replace: bool | None) -> CommandError:
    stop = f"`tfsteps stop {run} --task {task}{options}` stops it"
    adopt = "; if its launcher is gone, --adopt goes on with it" if options else ""
    beside = f"another --task runs beside it{adopt}"
    instead = beside if replace is None else "--replace stops and removes it first"
    return CommandError(f"run {run}: task {task} {why}; {stop}, {instead}")


def launch_plan(plan: Plan, observers: Sequence[Observer], tensorboard_url: str = "") -> Status:
    """Launch a job, follow it to its end, and return its final status. LaunchError if that fails."""
    return launch(
        plan.job,
        plan.identity,
        plan.system,
        base_dir=plan.base_dir,
        observers=observers,
        tensorboard_url=tensorboard_url,
        warnings=plan.warnings,
        checked=True,
    )


def launch_failed(task: str, error: LaunchError) -> CommandError:
    """Return the error of a command that could not launch or follow a job."""
    code = ExitCode.PLATFORM if error.retryable else ExitCode.USAGE
    what = "was launched, but not followed to its end" if error.created else "could not be launched"
    return CommandError(f"{task} {what}: {error}", code)
