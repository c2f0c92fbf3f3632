"""`tfsteps task`: runs or debugs one task of a pipeline by itself, before the whole pipeline."""

import contextlib
import datetime as dt
import enum
import functools
import re
import shlex
from collections.abc import Mapping
from typing import Annotated

import typer

from tfsteps.api.plan import Plan, choose, make_plan
from tfsteps.backends.backend_location import BackendLocation, on_of
from tfsteps.backends.find import Selection
from tfsteps.backends.local.backend import LocalBackend
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.commands import single_task
from tfsteps.cli.commands.clear import Scope, clear_scope, contents
from tfsteps.cli.commands.compile import PipelineName
from tfsteps.cli.commands.debug import held_plan, launch_held
from tfsteps.cli.commands.logs import logs
from tfsteps.cli.commands.run import Detach, RunDryRun, SystemName
from tfsteps.cli.commands.single_task import DEBUG, RUN, SingleTask
from tfsteps.cli.commands.submit import parse_parameters
from tfsteps.cli.place_options import Context, Namespace, OnOption, Overrides
from tfsteps.cli.planned_job import Display, TensorBoardChoice, print_plan, run_plan, start_detached
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.console.text import shell_path
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.location import Location
from tfsteps.runs.status import Status
from tfsteps.spec import RoleName
from tfsteps.spec.units import parse_duration
from tfsteps.systems import registry

_HOLD = "2h"
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


class TaskAction(enum.StrEnum):
    """What `tfsteps task` does."""

    RUN = "run"
    DEBUG = "debug"
    LOGS = "logs"
    CLEAR = "clear"


def task(
    action: Annotated[
        TaskAction,
        typer.Argument(
            help="run: run the task's job to its end. debug: hold its replicas, for a shell in each. logs: print the "
            "log of the newer one. clear: remove everything of both."
        ),
    ],
    pipeline: Annotated[
        str,
        typer.Argument(
            metavar="PIPELINE",
            help="A program (.py), or what `tfsteps compile` made of one; or a run, by its id or name.",
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="TASK", help="Name of the task: a train or launch step.")],
    *,
    program: PipelineName = None,
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="NAME=VALUE",
            help="An input of the pipeline, `epochs=3`; an output of another task, `prepare.file=/data`; an item of a "
            "loop, `for-loop-1.item=0.1`; an input of this task, `train.workers=1`. Repeatable.",
        ),
    ] = None,
    overrides: Overrides = None,
    on: OnOption = None,
    system: SystemName = None,
    context: Context = "",
    namespace: Namespace = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="run, debug: stop and remove the earlier one if it still runs.")
    ] = False,
    hold: Annotated[
        str | None, typer.Option(metavar="ROLES", help="debug: hold these roles, with commas.", show_default="all")
    ] = None,
    hold_for: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="debug: end the job after this time, or at this time of day: `23:30`.",
            show_default=_HOLD,
        ),
    ] = None,
    detach: Detach = False,
    dry_run: RunDryRun = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="logs: go on until the job has ended.")] = False,
    tail: Annotated[int | None, typer.Option(min=0, help="logs: begin with the last lines, as many as this.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="clear: do not ask.")] = False,
) -> None:
    """Run one task of a pipeline by itself, debug it, print its log, or remove what it left.

    The job is what the pipeline would run. Values that only a run of the pipeline has, such as the outputs of other
    tasks, are set by -p; a run in place of the file has them already.

    The id of the run is always the same: `run-PIPELINE-TASK`, or `debug-PIPELINE-TASK`. A new one replaces an earlier
    one that has ended: its job, log and records are removed. One that still runs is replaced only with --replace.
    """
    launching = (TaskAction.RUN, TaskAction.DEBUG)
    options: dict[tuple[TaskAction, ...], dict[str, object]] = {
        launching: {
            "--param": params,
            "--set": overrides,
            "--system": system,
            "--replace": replace,
            "--detach": detach,
        },
        (*launching, TaskAction.CLEAR): {"--dry-run": dry_run},
        (TaskAction.DEBUG,): {"--hold": hold, "--for": hold_for},
        (TaskAction.LOGS,): {"--follow": follow, "--tail": tail is not None},
        (TaskAction.CLEAR,): {"--yes": yes},
    }
    _check_options(action, options)
    is_file = single_task.is_file(pipeline)
    if params and not is_file:
        raise CommandError("--param is for the file of a pipeline; a run has its values: write --set PATH=VALUE")
    known_at = None if is_file else located(Selection(pipeline, name), on, context, namespace)
    chosen, location = choose(known_at.on if known_at else on, system, context, namespace)
    single = single_task.of_run(pipeline, name, location) if known_at else single_task.of_file(pipeline, program, name)
    if action is TaskAction.CLEAR:
        for mode in (RUN, DEBUG):
            scope = Scope(single.run_id(mode), single.name, whole_run=True)
            words = ["tfsteps", "task", "clear", pipeline, name, *(["--pipeline", program] if program else [])]
            command = f"{shlex.join(words)}{location.options}"
            clear_scope(scope, _elsewhere(location), on, context, command, yes=yes, dry_run=dry_run)
        return
    if action is TaskAction.LOGS:
        run, there = _newest(single, location, pipeline)
        where = {"on": on, "context": context, "namespace": namespace} if there else {"on": Location.LOCAL}
        logs(run, task=[single.name], follow=follow, tail=tail, **where)
        return
    run = single.run_id(RUN if action is TaskAction.RUN else DEBUG)
    if known_at:
        job = single_task.job_of_run(pipeline, name, location, overrides or [])
    else:
        values = parse_parameters(params or [])
        job = single_task.job_of_file(single, run, values, overrides or [], here=location.on == Location.LOCAL)
    if system is None and job.system and on_of(registry.location(job.system)) == location.on:
        chosen = job.system
    plan = functools.partial(
        make_plan, job.source, chosen, location, run, single.name, dry_run=dry_run, replace=replace
    )
    if action is TaskAction.DEBUG:
        planned, programs = held_plan(plan, "all" if hold is None else hold, _seconds(hold_for or _HOLD))
    else:
        planned, programs = plan(), {}
    if dry_run:
        print_plan(planned, as_json=False)
        return
    _remove(
        Scope(run, single.name, whole_run=True), location, context
    )  # the job is right, and without --replace nothing of the task runs
    raise typer.Exit(_start(planned, programs, location, detach=detach))


def _start(plan: Plan, programs: dict[RoleName, str], location: BackendLocation, *, detach: bool) -> ExitCode:
    """Launch a job; with `programs`, the roles in it are held. Return the exit code of the command."""
    if detach:
        return start_detached(plan, location, Display(), TensorBoardChoice())
    if programs:
        launch_held(plan, programs, location)
    return run_plan(plan, location.on, Display(), TensorBoardChoice())


def _elsewhere(location: BackendLocation) -> BackendLocation | None:
    return None if location.on == Location.LOCAL else location


def _check_options(action: TaskAction, options: Mapping[tuple[TaskAction, ...], Mapping[str, object]]) -> None:
    """Raise CommandError for an option that is used and that is about other actions."""
    for actions, named in options.items():
        if action not in actions and (used := [option for option, value in named.items() if value]):
            raise CommandError(f"{used[0]} is for `task {' or '.join(actions)}`; leave it out")


def _remove(scope: Scope, location: BackendLocation, context: str) -> None:
    """Stop and remove everything of an earlier run of the task. CommandError if something is left."""
    with contents(scope, _elsewhere(location), None, context) as earlier:
        if lines := earlier.lines():
            say(f"removing the earlier {scope}: {', '.join(line.strip() for line in lines)}")
            earlier.remove()


def _newest(single: SingleTask, location: BackendLocation, pipeline: str) -> tuple[str, bool]:
    """Return the id of the newer one of the runs that the task has by itself, and whether its job is in `location`.

    Otherwise only this machine's records know it. CommandError if there is none.
    """
    runs = [single.run_id(mode) for mode in (RUN, DEBUG)]
    with open_backend(location, gone=True) as backend:
        there: list[Status] = [job.status for run in runs for job in backend.jobs(run)]
        where = backend.where
    known = {status.uid for status in there}
    recorded = [job.status for run in runs for job in LocalBackend().jobs(run) if location.on != Location.LOCAL]
    recorded = [status for status in recorded if on_of(status.location) == location.on and status.uid not in known]
    statuses = [
        *there,
        *(
            status
            for status in recorded
            if location.namespace in ("", status.namespace, status.home_namespace)
            and location.context in ("", status.cluster, status.context)
        ),
    ]
    if not statuses:
        command = f"tfsteps task run {shell_path(pipeline)} {shlex.quote(single.name)}{location.options}"
        raise CommandError(f"task {single.name!r} has no run of its own here; `{command}` runs it")
    newest = max(statuses, key=lambda status: status.created)
    if newest not in there:
        say(f"{newest.job} is not {where}; these are the lines that its launcher saved on this machine")
    return newest.identity.run, newest in there


def _seconds(text: str) -> float:
    """Return the seconds of a duration, or until the next time that the clock of this machine shows `23:30`."""
    if clock := _CLOCK.fullmatch(text.strip()):
        now = dt.datetime.now().astimezone()
        end = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
        return (end - now if end > now else end - now + dt.timedelta(days=1)).total_seconds()
    with contextlib.suppress(ValueError):
        if seconds := parse_duration(text):
            return seconds
    raise CommandError(f"--for {text!r} is no duration and no time of day; write one such as 30m, 2h or 23:30")
