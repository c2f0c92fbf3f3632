"""Launches a planned job."""

from tfsteps.api.plan import Plan
from tfsteps.console.errors import CommandError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.lifecycle import launch
from tfsteps.launcher.recorder import Observer
from tfsteps.runs.status import Status
from tfsteps.systems.base import LaunchError


def launch_plan(plan: Plan, view: Observer, tensorboard_url: str) -> Status:
    """Launch a job, follow it to its end, and return its final status. LaunchError if that fails."""
    return launch(
        plan.job,
        plan.identity,
        plan.system,
        base_dir=plan.base_dir,
        observers=[view],
        tensorboard_url=tensorboard_url,
    )


def launch_failed(task: str, error: LaunchError) -> CommandError:
    """Return the error of a command that could not launch or follow a job."""
    code = ExitCode.PLATFORM if error.retryable else ExitCode.USAGE
    what = "was launched, but not followed to its end" if error.created else "could not be launched"
    return CommandError(f"{task} {what}: {error}", code)
