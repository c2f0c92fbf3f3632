"""`--detach`: starts a planned job, and returns while it runs."""

import json
import shlex

import msgspec

from tfsteps.api.launching import launch_failed, launch_plan
from tfsteps.api.plan import Plan
from tfsteps.backends.place import Place
from tfsteps.cli.foreground import Display, TensorBoardChoice, board_of
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.console.outputs import OutputFormat, forget_tensorboard, outputs, print_json, verdict
from tfsteps.console.text import clean
from tfsteps.launcher import background
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import exit_code
from tfsteps.launcher.lifecycle import begin
from tfsteps.launcher.recorder import Observer
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import format_duration
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.capabilities import Level


def detach(plan: Plan, place: Place, display: Display, tensorboard: TensorBoardChoice) -> ExitCode:
    """Start a job, print how to follow it, and return the exit code: 0 once it has started.

    Locally a launcher stays in the background. On a cluster or platform no launcher does: the job is recorded, so that
    `tfsteps attach` can follow it.

    Raises:
        CommandError: It could not be started.
    """
    if tensorboard.keep:
        raise CommandError("--keep-tensorboard: a detached job has no terminal; see `tfsteps tensorboard`")
    display.begin(plan.identity.run)
    for warning in plan.system.warnings(plan.job):
        warn(warning)
    try:
        status = _begun(plan) if plan.system.outlives_launcher else _in_background(plan, tensorboard)
    except LaunchError as error:
        raise launch_failed(plan.identity.task, error) from error
    except KeyboardInterrupt:  # the launcher in the background does not get Ctrl-C
        run = shlex.quote(plan.identity.run)
        say(f"run {plan.identity.run} may have started; `tfsteps stop {run}{place.options}` stops it")
        raise
    if display.output is OutputFormat.JSON:
        print_json(outputs(status))
    if status.state.terminal and plan.system.outlives_launcher:  # Ctrl-C during the start
        print(verdict(status))
        return exit_code(status)
    if display.output is OutputFormat.TEXT:
        print("\n".join(_hints(plan, place, status)))
    return ExitCode.SUCCEEDED


def _in_background(plan: Plan, tensorboard: TensorBoardChoice) -> Status:
    """Launch a job from a process that outlives this one."""

    def run(ready: Observer) -> None:
        try:
            with board_of(plan, tensorboard, here=True) as board:
                launch_plan(plan, ready, board.url if board else "")
                forget_tensorboard(AttemptFolder.of(plan.identity))
        except CommandError as error:  # of the TensorBoard
            raise LaunchError(str(error), retryable=True) from error

    return background.spawn(run)


def _begun(plan: Plan) -> Status:
    """Create a job that needs no launcher, and record it on this machine."""
    status = begin(plan.job, plan.identity, plan.system, base_dir=plan.base_dir)
    if status.state.terminal:
        return status
    status.detached, status.launcher = True, 0
    try:
        AttemptFolder.of(status.identity).record(status, msgspec.json.encode(plan.job))
    except OSError as error:
        warn(f"{status.job} runs, but is not recorded on this machine: {error}; `tfsteps attach` may not know it")
    return status


def _hints(plan: Plan, place: Place, status: Status) -> list[str]:
    """Return the lines that say how to follow and stop a job, and what ends it."""
    run = shlex.quote(status.identity.run)
    lines = [
        f"{clean(status.identity.task)} runs as {status.job} on {status.system}",
        f"follow it:  tfsteps attach {run}{place.options}",
        f"stop it:    tfsteps stop {run}{place.options}",
    ]
    by_launcher = registry.capabilities_of(plan.system.name)["tensorboard"].level is Level.DONE
    if plan.job.tensorboard and plan.system.outlives_launcher and by_launcher:
        starts = f"`tfsteps attach {run}{place.options}` or `tfsteps tensorboard {run}{place.options}` starts one"
        lines.append(f"board:      no TensorBoard while no launcher follows the job; {starts}")
    return [*lines, *_deadlines(plan)]


def _deadlines(plan: Plan) -> list[str]:
    """Return which deadlines nothing enforces while no launcher follows the job, and what enforces `total`."""
    if not plan.system.outlives_launcher:
        return []
    limits = plan.job.deadlines
    waiting = [name for name in ("queue", "pending", "running", "no_progress") if getattr(limits, name) is not None]
    total = f"`total` ({format_duration(limits.total)})"
    objects = json.dumps(msgspec.to_builtins(plan.system.plan(plan.job, plan.identity, plan.places)))
    platform = registry.plugin(plan.system.name).platform
    by_system = (platform and platform.enforces_total) or '"activeDeadlineSeconds"' in objects
    by = f"{plan.system.name} and the janitor enforce" if by_system else "only the janitor enforces"
    lines = [f"deadline:   {by} {total} while no launcher follows the job"]
    if waiting:
        names = ", ".join(f"`{name}`" for name in waiting)
        lines.append(f"            {names}: not enforced until `tfsteps attach` follows the job")
    return lines
