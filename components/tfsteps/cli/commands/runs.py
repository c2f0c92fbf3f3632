"""`tfsteps runs` and `tfsteps show`: what is there, and how it stands."""

import contextlib
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tfsteps.cli.backends.base import backend, find_jobs, jobs_of
from tfsteps.cli.backends.find import LATEST, find_attempts, find_run, read
from tfsteps.cli.backends.place import AllNamespaces, Context, Namespace, On, OnOption, Place, located
from tfsteps.cli.errors import CommandError
from tfsteps.cli.watch import follow, observer
from tfsteps.console.outputs import (
    REPLICA_COLUMNS,
    Output,
    headline,
    plain,
    print_json,
    print_table,
    replica_row,
    results,
)
from tfsteps.console.text import clean, duration, iso
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.lifecycle import Observer
from tfsteps.runs import store
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import Status


def _completions(incomplete: str) -> list[str]:
    return [run for run in [*reversed(store.runs()), LATEST] if run.startswith(incomplete)]


RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id of the run, the beginning of one, or `latest`; on a cluster also its Workflow's name.",
        autocompletion=_completions,
    ),
]
Task = Annotated[str | None, typer.Option(help="Only this task of the run.")]
AttemptNumber = Annotated[int | None, typer.Option(min=0, help="This attempt. Left out: the newest of each task.")]
OutputOption = Annotated[Output, typer.Option(help="text for people, json for programs.")]
_COLUMNS = ("NAMESPACE", "WORKFLOW", "RUN", "TASK", "ATTEMPT", "STATE", "SYSTEM", "AGE", "DURATION")


def runs(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Only this run; named as for `tfsteps show`.")
    ] = None,
    *,
    output: OutputOption = Output.TEXT,
    on: Annotated[On, typer.Option(help="Runs launched from this machine, on a cluster, or on HAI.")] = On.LOCAL,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """List all runs, the newest first."""
    place = Place(on, context, namespace, all_namespaces)
    if on is not On.LOCAL:
        with backend(place) as there:
            jobs = there.jobs() if run is None else jobs_of(there, place, run)
            found, where = [(job.status, job.workflow) for job in jobs], there.where
    else:
        names = store.runs() if run is None else [find_run(run)]
        found = [(status, "") for name in names for each in store.attempts(name) if (status := read(each))]
        where = f"in {store.home()}"
    found.sort(key=lambda pair: pair[0].created, reverse=True)
    if output is Output.JSON:
        print_json([_summary(status, workflow) for status, workflow in found])
    elif found:
        used = {"NAMESPACE": all_namespaces, "WORKFLOW": any(workflow for _, workflow in found)}
        columns = [i for i, name in enumerate(_COLUMNS) if used.get(name, True)]
        rows = [_row(status, workflow) for status, workflow in found]
        header, *body = [[row[i] for i in columns] for row in [_COLUMNS, *rows]]
        print_table(tuple(header), body, spare=("SYSTEM", "ATTEMPT", "DURATION", "WORKFLOW"))
    else:
        typer.echo(f"There are no runs {where}; `tfsteps init` writes a first job.", err=True)


def show(
    run: RunId,
    *,
    task: Task = None,
    attempt: AttemptNumber = None,
    output: OutputOption = Output.TEXT,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Show it live until it has ended.")] = False,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Show the status of a run.

    Its replicas, where its results are, and why it failed if it did.
    """
    place = located(run, task, on, context, namespace, everywhere=all_namespaces)
    if place.on is On.LOCAL and _shown_as_pipeline(find_run(run), task, output):
        return
    with observer(final=False) if follow_ and output is Output.TEXT else contextlib.nullcontext() as looking:
        observers = [looking] if looking else []
        if place.on is not On.LOCAL:
            found = _remote(place, run, task, attempt, observers, live=follow_)
        else:
            found = _here(find_run(run), task, attempt, observers, live=follow_)
    if not found:  # `read` has said why
        raise CommandError(f"run {run}: no status of it can be read", ExitCode.PLATFORM)
    found.sort(key=lambda status: status.created)
    if output is Output.JSON:
        print_json({"run": found[0].identity.run, "attempts": [plain(status) for status in found]})
        return
    for position, status in enumerate(found):
        if position:
            print()
        print_status(status)


def _shown_as_pipeline(run: str, task: str | None, output: Output) -> bool:
    """Print how a pipeline ended that launched no job; tell whether it is one."""
    pipeline = PipelineRecord.read(run) if task is None and not store.attempts(run) else None
    if pipeline is None:
        return False
    if output is Output.JSON:
        times = {"created": iso(pipeline.created), "ended": iso(pipeline.ended)}
        print_json({**msgspec.to_builtins(pipeline), **times, "attempts": []})
        return True
    took = duration(pipeline.ended - pipeline.created)
    print(f"{'run':<12} {clean(run)}\n{'pipeline':<12} {clean(pipeline.pipeline)}\n")
    print(
        f"{clean(pipeline.pipeline)} {pipeline.state} after {took}, no job was launched"
        + (f": {clean(pipeline.message)}" if pipeline.message else ".")
    )
    return True


def _here(
    run: str, task: str | None, attempt: int | None, observers: Sequence[Observer], *, live: bool
) -> list[Status]:
    if live:
        follow(lambda: find_attempts(run, task, attempt), observers)
    return [status for each in find_attempts(run, task, attempt) if (status := read(each))]


def _remote(
    place: Place, run: str, task: str | None, attempt: int | None, observers: Sequence[Observer], *, live: bool
) -> list[Status]:
    with backend(place) as there:
        jobs = find_jobs(there, place, run, task, attempt)
        return there.follow(jobs, observers) if live else [there.explained(job) for job in jobs]


def print_status(status: Status) -> None:
    """Print all that people want to know of an attempt."""
    print("\n".join(headline(status)) + "\n")
    now = time.time()
    print_table(REPLICA_COLUMNS, [replica_row(replica, now) for replica in status.replicas], spare=("PLACE", "CPU"))
    print()
    for warning in status.warnings:
        print(f"{'warning':<12} {clean(warning)}")
    print("\n".join(results(status)))


def _row(status: Status, workflow: str) -> list[str]:
    now = time.time()
    who = status.identity
    took = duration((status.ended or now) - status.created) if status.ended or not status.state.terminal else "-"
    age = duration(now - status.created)
    return [
        status.namespace,
        workflow,
        clean(who.run),
        clean(who.task),
        str(who.attempt),
        status.state.value,
        status.system,
        age,
        took,
    ]


def _summary(status: Status, workflow: str) -> dict[str, object]:
    return {
        "run": status.identity.run,
        "workflow": workflow,
        "task": status.identity.task,
        "attempt": status.identity.attempt,
        "pipeline": status.identity.pipeline,
        "state": status.state.value,
        "reason": status.reason,
        "system": status.system,
        "job": status.job,
        "namespace": status.namespace,
        "created": iso(status.created),
        "started": iso(status.started),
        "ended": iso(status.ended),
    }
