"""`tfsteps attach`: follows a running job to its end, as the terminal that started it would have."""

import contextlib
import pathlib
import shlex
from collections.abc import Sequence
from typing import Any

import typer

from tfsteps import typed_json
from tfsteps.answer import NO
from tfsteps.api.job_input import find_system
from tfsteps.api.plan import launch_failed
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.base import LogOptions, RunBackend
from tfsteps.backends.find import Job, Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.backends.records import Record, record_of
from tfsteps.cli.commands.run import RunOutput, Timestamps
from tfsteps.cli.place_options import Context, Namespace, OnOption
from tfsteps.cli.planned_job import Display
from tfsteps.cli.run_options import RunId, Task
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.console.outputs import OutputFormat
from tfsteps.console.text import clean
from tfsteps.launcher import background
from tfsteps.launcher.failure import exit_code
from tfsteps.launcher.lifecycle import first_status, resume
from tfsteps.launcher.printer import Printer
from tfsteps.runs.status import ABANDONED, Status, may_continue
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import JobNote, LaunchError, OnCluster
from tfsteps.systems.kubernetes.job_cluster import JobCluster

INTERRUPTED = 130
"""The exit code after Ctrl-C, as of a shell."""


def attach(
    run: RunId,
    *,
    task: Task = None,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    output: RunOutput = OutputFormat.TEXT,
    timestamps: Timestamps = False,
) -> None:
    """Follow a job to its end: its log from the start, the results, and the exit code of `tfsteps run`.

    Ctrl-C leaves the job running. A job whose launcher is running is only watched. A job on a cluster or platform that
    no launcher follows gets this one: it enforces the deadlines, collects the outputs and cleans up.
    """
    selection = Selection(run, task)
    location = located(selection, on, context, namespace)
    display = Display(output, timestamps)
    with open_backend(location) as backend:
        job = only(selection.certain(backend.find(run)))
        identity = job.status.identity
        selection = Selection(identity.run, identity.task, identity.attempt)
        try:
            status = _followed(backend, job, selection, location, display)
        except KeyboardInterrupt:
            say(_left(location, identity.run))
            raise typer.Exit(INTERRUPTED) from None
        except LaunchError as error:
            raise launch_failed(identity.task, error) from error
    display.results(status)
    if not status.outlives_launcher and status.reason == ABANDONED:
        say(f"`tfsteps rerun {shlex.quote(identity.run)}` runs it again")
    raise typer.Exit(exit_code(status))


def only(jobs: Sequence[Any]) -> Any:
    """Return the only one of a run's jobs. CommandError if there are several; names their tasks."""
    if len(jobs) > 1:
        run = jobs[0].status.identity.run
        tasks = ", ".join(clean(job.status.identity.task) for job in jobs)
        raise CommandError(f"run {run} has several tasks: {tasks}; choose one by --task")
    return jobs[0]


def _left(location: BackendLocation, run: str) -> str:
    name = f"{shlex.quote(run)}{location.options}"
    return f"run {run} was not stopped; `tfsteps attach {name}` follows it again, `tfsteps stop {name}` stops it"


def _followed(
    backend: RunBackend[Any], job: Job, selection: Selection, location: BackendLocation, display: Display
) -> Status:
    """Follow a job by the records of its launcher, as its launcher, or by what its place shows; return its end."""
    record = record_of(job.status)
    recorded_end = record and record.status.state.terminal and not may_continue(record.status)
    alive = record.attempt.alive() if record else NO
    if alive.unknown:
        raise CommandError(f"run {selection.run}: {alive.why}; use `tfsteps attach {shlex.quote(selection.run)}` there")
    if record and (alive.yes or recorded_end or not job.status.outlives_launcher):
        with display.observer(discards=False) as view:
            return background.follow(record.attempt, [view], passes_on=False)
    if (text := backend.recorded(job)) and (record or job.status.detached):
        return _take_over(job.status, record, typed_json.decode(text, TrainingJob), location, display)
    return _watch(backend, job, selection, location, display)


def _take_over(
    status: Status, record: Record | None, job: TrainingJob, location: BackendLocation, display: Display
) -> Status:
    """Follow a job that no launcher follows as its launcher."""
    system = find_system(status.system)
    if isinstance(system, OnCluster):
        there = location if location.context else BackendLocation.of(status)
        system.cluster = JobCluster(there.context, status.namespace, launched_from=there.home)
    base_dir = pathlib.Path((record.status.base_dir if record else "") or pathlib.Path.cwd())
    first = first_status(job, status.identity, system, system.output_paths(job, status.identity, base_dir), "")
    first.job, first.uid, first.namespace, first.created = status.job, status.uid, status.namespace, status.created
    what = job, first.job, first.uid
    try:
        system.note(*what, JobNote.FOLLOWED)  # other machines only watch it now
    except LaunchError as error:
        first.warnings.append(f"attach on another machine may follow this job, too: {error}")
    try:
        with display.observer() as view:
            return resume(job, first, system, observers=[view], leaves=True)
    except KeyboardInterrupt:
        with contextlib.suppress(LaunchError):  # then only this machine can follow it
            system.note(*what, JobNote.DETACHED)
        raise


def _watch(
    backend: RunBackend[Any], job: Job, selection: Selection, location: BackendLocation, display: Display
) -> Status:
    """Follow a job whose launcher, if it has one, is elsewhere, and change nothing."""
    identity = job.status.identity
    warn(
        f"run {identity.run} was launched elsewhere, and its job file is not known here: outputs are not collected, "
        f"and nothing is cleaned up. If its launcher is gone: `tfsteps run FILE --run-id {shlex.quote(identity.run)} "
        f"--task {shlex.quote(identity.task)} --adopt{location.options}`"
    )
    if display.output is OutputFormat.TEXT:
        options = LogOptions(accepts=lambda _: True, timestamps=display.timestamps, follow=True)
        backend.print_log([job], selection, options)
    return backend.follow([job], selection, [Printer(discards=False)] if display.output is OutputFormat.TEXT else [])[0]
