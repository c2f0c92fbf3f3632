"""`tfsteps requeue` and `tfsteps change`: what the scheduler of a platform can do with a run that exists."""

from typing import Annotated, Any

import typer

from tfsteps.backends.base import RunBackend
from tfsteps.backends.find import Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.backends.platform import PlatformBackend
from tfsteps.cli.commands.runs import RunId, Task
from tfsteps.cli.place_options import OnOption
from tfsteps.console.errors import CommandError


def requeue(run: RunId, *, task: Task = None, on: OnOption = None) -> None:
    """Interrupt a run of a platform: it gives its nodes back, and waits in the queue again.

    The programs get the notice of an interruption, and continue from their last checkpoint later. `tfsteps pause` keeps
    a run out of the queue until `tfsteps resume`.
    """
    selection = Selection(run, task)
    with open_backend(located(selection, on, "", "")) as backend:
        _platform(backend).requeue(selection.of(backend.find(run)))


def change(
    run: RunId,
    *,
    priority: Annotated[
        str, typer.Option(metavar="PRIORITY", help="0 to 100 as in a job file, or the platform's name of a level.")
    ] = "",
    queue: Annotated[str, typer.Option(metavar="QUEUE", help="The queue, or the group of nodes.")] = "",
    task: Task = None,
    on: OnOption = None,
) -> None:
    """Change the priority or the queue of a run of a platform that has not ended."""
    if not priority and not queue:
        raise CommandError("nothing is to be changed; give --priority or --queue")
    selection = Selection(run, task)
    with open_backend(located(selection, on, "", "")) as backend:
        _platform(backend).change(selection.of(backend.find(run)), priority, queue)


def _platform(backend: RunBackend[Any]) -> PlatformBackend[Any]:
    if not isinstance(backend, PlatformBackend):
        fix = "elsewhere, stop the run, and run it with other settings; on a cluster, its queue orders the jobs"
        raise CommandError(f"only some platforms can do that, with --on PLATFORM; {fix}")
    return backend
