"""`tfsteps debug`: everything that helps to find out what a run is doing, or why it failed."""

import collections
import functools
import pathlib
import shlex
import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from tfsteps.api.job_input import read_file
from tfsteps.api.plan import choose, make_plan
from tfsteps.backends.base import Section
from tfsteps.backends.find import Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.commands.hold import held_plan, launch_held
from tfsteps.cli.commands.rerun import recorded, recorded_input
from tfsteps.cli.commands.runs import AttemptNumber, RunId, Task
from tfsteps.cli.place_options import AllNamespaces, Context, From, Namespace, OnOption
from tfsteps.console.errors import CommandError
from tfsteps.console.outputs import REPLICA_COLUMNS, headline, print_table, replica_row, results
from tfsteps.console.text import clean, duration
from tfsteps.runs.events import State
from tfsteps.runs.log_segments import LogReader
from tfsteps.runs.pipeline_record import PipelineRecord, StepRecord
from tfsteps.runs.status import Status

_TAIL_LINES = 40  # of a step: a traceback of the SDK's executor has about 15


def debug(
    run: RunId,
    *,
    task: Task = None,
    attempt: AttemptNumber = None,
    hold: Annotated[
        str | None,
        typer.Option(
            metavar="ROLES", help="Launch RUN, or a job file, again with these roles held: names with commas, or `all`."
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --hold, the job system by its name.", show_default="what --on says"),
    ] = None,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    from_: From = "",
) -> None:
    """Show all that helps to find out why a run fails or makes no progress.

    Prints its replicas with their hosts, its changes of state, the cause of its failure, and commands for a closer
    look; on a cluster also the events of the job and its pods, the newest last.

    With --hold it launches a job as a new run, that of a job file or of a run, and holds the replicas of these roles:
    each is set up as usual and then sleeps instead of running its program. The command that opens a shell in each is
    printed. Of the deadlines, only `total` is enforced. Ctrl-C ends the job.
    """
    if hold is not None:
        if attempt is not None or all_namespaces:
            raise CommandError("--attempt and --all-namespaces choose a run, --hold makes one; leave them out")
        if run == "-" or pathlib.Path(run).is_file() or run.endswith((".yaml", ".yml", ".json")):
            if task or from_:
                raise CommandError("--task and --from choose a run, and this is a job file; leave them out")
            job_input = read_file(run)
        else:
            selection = Selection(run, task)
            job_input = recorded_input(*recorded(selection, located(selection, on, context, namespace, records=from_)))
        name, where = choose(on, system, context, namespace)
        plan = functools.partial(make_plan, job_input, name, where, None, None)
        launch_held(*held_plan(plan, hold), where)
    if system is not None:
        raise CommandError(f"--system {system} says where to launch a job; add --hold, or leave it out")
    selection = Selection(run, task, attempt)
    with open_backend(
        located(selection, on, context, namespace, everywhere=all_namespaces, records=from_), gone=True
    ) as backend:
        target = backend.find(run)
        jobs, steps = selection.parts(target)
        for job in jobs:
            _print(backend.explain(job), backend.sections(job), backend.commands(job))
    for step in steps:
        if target.pipeline and (task or step.state is not State.SUCCEEDED):
            _print_step(target.pipeline, step)


def _print(status: Status, sections: Iterator[Section], commands: Sequence[str]) -> None:
    print("\n".join(headline(status)) + "\n")
    now = time.time()
    print_table(REPLICA_COLUMNS, [replica_row(replica, now) for replica in status.replicas], spare=("CPU", "MEMORY"))
    for title, rows in sections:
        if rows:
            print(f"\n{title}")
            print("\n".join("  " + "  ".join(filter(None, map(clean, row))) for row in rows))
    print("\n" + "\n".join(results(status)))
    print("\nlook further\n" + "\n".join(f"  {command}" for command in commands) + "\n")


def _print_step(pipeline: PipelineRecord, step: StepRecord) -> None:
    """Print a step of a pipeline on this machine that launched no job."""
    log = pipeline.log_of(step)
    facts = {
        "run": pipeline.run,
        "step": step.name + (f", try {step.number}" if step.number else ""),
        "pipeline": pipeline.pipeline,
        "state": f"{step.state}, {duration((step.ended or time.time()) - step.started)}",
        "why": step.why,
        "outputs": step.outputs,
        "log": str(log or ""),
    }
    print("\n".join(f"{name:<12} {clean(value)}" for name, value in facts.items() if value))
    if log:
        with LogReader(log) as lines:
            last = collections.deque(lines.read(), maxlen=_TAIL_LINES)
        print("\nlast lines\n" + "\n".join(f"  {clean(text)}" for _, _, text in last))
    print(f"\nlook further\n  {shlex.join(['tfsteps', 'logs', pipeline.run, '--task', step.name])}\n")
