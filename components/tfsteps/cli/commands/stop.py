"""Commands that change a job which has not ended: stop it, pause and resume it, or put it into its queue again."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from tfsteps.backends.base import RunBackend
from tfsteps.backends.find import FoundRun, JobT, Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.backends.platform import PlatformBackend
from tfsteps.backends.whole_runs import stop_pipeline
from tfsteps.cli.place_options import AllNamespaces, Context, Namespace, OnOption
from tfsteps.cli.run_options import RunId, Task
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.runs.events import State


def stop(
    run: RunId,
    *,
    task: Task = None,
    now: Annotated[bool, typer.Option("--now", help="Kill the replicas, without a grace period.")] = False,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Stop a run and wait until it has ended. A pipeline of this machine is stopped with all its steps."""
    selection = Selection(run, task)
    with open_backend(located(selection, on, context, namespace, everywhere=all_namespaces)) as backend:
        target = _found_run(backend, run)
        if task is None and target.pipeline and target.pipeline.state is State.RUNNING:
            stop_pipeline(target.pipeline, now=now)
            return
        backend.stop(selection.of(target), now=now)
        selection.check_read(target)


def _found_run(backend: RunBackend[JobT], run: str) -> FoundRun[JobT]:
    """Return the run that is to be changed; if `run` is not its id, print which one that is."""
    found_run = backend.find(run)
    if found_run.id != run:
        say(f"{run} is run {found_run.id}")
    return found_run


_Change = Callable[[RunBackend[Any], Sequence[Any], Selection], None]


def _command(change: _Change) -> Callable[..., None]:
    """Return the command that calls `change` with the selected jobs; it has the name and the text of `change`."""

    def command(
        run: RunId,
        *,
        task: Task = None,
        on: OnOption = None,
        context: Context = "",
        namespace: Namespace = "",
        all_namespaces: AllNamespaces = False,
    ) -> None:
        selection = Selection(run, task)
        with open_backend(located(selection, on, context, namespace, everywhere=all_namespaces)) as backend:
            change(backend, selection.certain(_found_run(backend, run)), selection)

    command.__name__, command.__doc__ = change.__name__, change.__doc__
    return command


@_command
def pause(backend: RunBackend[Any], jobs: Sequence[Any], selection: Selection) -> None:
    """Stop the replicas but keep the job, and wait until they are gone.

    The job stays, and its launcher waits; of the deadlines only `total` counts. `tfsteps resume` starts the replicas
    again, from their last checkpoint if they write any.
    """
    backend.set_paused(jobs, selection, paused=True)


@_command
def resume(backend: RunBackend[Any], jobs: Sequence[Any], selection: Selection) -> None:
    """Start the replicas of a job again that is paused, or was created suspended."""
    backend.set_paused(jobs, selection, paused=False)


def requeue(run: RunId, *, task: Task = None, on: OnOption = None) -> None:
    """Interrupt a run of a platform: it gives its nodes back, and waits in the queue again.

    The programs get the notice of an interruption, and continue from their last checkpoint later. `tfsteps pause` keeps
    a run out of the queue until `tfsteps resume`.
    """
    selection = Selection(run, task)
    with open_backend(located(selection, on, "", "")) as backend:
        _platform(backend).requeue(selection.certain(_found_run(backend, run)))


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
        _platform(backend).change(selection.certain(_found_run(backend, run)), priority, queue)


def _platform(backend: RunBackend[Any]) -> PlatformBackend[Any]:
    if not isinstance(backend, PlatformBackend):
        fix = "elsewhere, stop the run, and run it with other settings; on a cluster, its queue orders the jobs"
        raise CommandError(f"only some platforms can do that, with --on PLATFORM; {fix}")
    return backend
