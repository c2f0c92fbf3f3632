"""`tfsteps runs` and `tfsteps show`: the list of runs, and the status of one."""

import contextlib
import time
from typing import Annotated

import msgspec
import typer

from tfsteps.cli.backends.find import LATEST, Job, Selection
from tfsteps.cli.backends.place import AllNamespaces, Context, Namespace, On, OnOption, Place, located, open_backend
from tfsteps.cli.watch import observer
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
from tfsteps.runs import store
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import Status


def _completions(incomplete: str) -> list[str]:
    return [run for run in [*reversed(store.runs()), LATEST] if run.startswith(incomplete)]


RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id of the run, the beginning of one, or `latest`. The name of a task, a job or a pipeline: its newest "
        "run. On a cluster also its Workflow's name.",
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
    with open_backend(Place(on, context, namespace, all_namespaces)) as backend:
        jobs = sorted(backend.jobs() if run is None else backend.find(run).jobs, key=lambda job: -job.status.created)
    if output is Output.JSON:
        print_json([_summary(job) for job in jobs])
    elif jobs:
        used = {"NAMESPACE": all_namespaces, "WORKFLOW": any(job.workflow for job in jobs)}
        columns = [i for i, name in enumerate(_COLUMNS) if used.get(name, True)]
        header, *body = [[row[i] for i in columns] for row in [_COLUMNS, *map(_row, jobs)]]
        print_table(tuple(header), body, spare=("SYSTEM", "ATTEMPT", "DURATION", "WORKFLOW"))
    else:
        typer.echo(f"There are no runs {backend.where}; `tfsteps init` writes a first job.", err=True)


def show(
    run: RunId,
    *,
    task: Task = None,
    attempt: AttemptNumber = None,
    output: OutputOption = Output.TEXT,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show it live until it has ended.")] = False,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Show the status of a run.

    Its replicas, where its results are, and why it failed if it did.
    """
    selection = Selection(run, task, attempt)
    with open_backend(located(selection, on, context, namespace, everywhere=all_namespaces)) as backend:
        target = backend.find(run)
        if target.pipeline and task is None:
            _print_pipeline(target.pipeline, output)
            return
        jobs = selection.of(target)
        if follow:
            with observer(final=False) if output is Output.TEXT else contextlib.nullcontext() as view:
                statuses = backend.follow(jobs, selection, [view] if view else [])
        else:
            statuses = [backend.explain(job) for job in jobs]
    statuses.sort(key=lambda status: status.created)
    if output is Output.JSON:
        print_json({"run": target.id, "attempts": [plain(status) for status in statuses]})
        return
    for position, status in enumerate(statuses):
        if position:
            print()
        print_status(status)


def _print_pipeline(pipeline: PipelineRecord, output: Output) -> None:
    """Print how a pipeline ended that launched no job."""
    if output is Output.JSON:
        times = {"created": iso(pipeline.created), "ended": iso(pipeline.ended)}
        print_json({**msgspec.to_builtins(pipeline), **times, "attempts": []})
        return
    name, message = clean(pipeline.pipeline), f": {clean(pipeline.message)}" if pipeline.message else "."
    print(f"{'run':<12} {clean(pipeline.run)}\n{'pipeline':<12} {name}\n")
    print(f"{name} {pipeline.state} after {duration(pipeline.ended - pipeline.created)}, no job was launched{message}")


def print_status(status: Status) -> None:
    """Print the status of an attempt: its replicas, warnings, results, and why it failed."""
    print("\n".join(headline(status)) + "\n")
    now = time.time()
    print_table(REPLICA_COLUMNS, [replica_row(replica, now) for replica in status.replicas], spare=("PLACE", "CPU"))
    print()
    for warning in status.warnings:
        print(f"{'warning':<12} {clean(warning)}")
    print("\n".join(results(status)))


def _row(job: Job) -> list[str]:
    now, status, identity = time.time(), job.status, job.status.identity
    took = duration((status.ended or now) - status.created) if status.ended or not status.state.terminal else "-"
    age = duration(now - status.created)
    return [
        status.namespace,
        job.workflow,
        clean(identity.run),
        clean(identity.task),
        str(identity.attempt),
        status.state.value,
        status.system,
        age,
        took,
    ]


def _summary(job: Job) -> dict[str, object]:
    status = job.status
    return {
        "run": status.identity.run,
        "workflow": job.workflow,
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
