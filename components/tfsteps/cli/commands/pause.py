"""`tfsteps pause` and `tfsteps resume`: stop the replicas of a job for a while, and start them again."""

from collections.abc import Callable, Sequence
from typing import Any

from tfsteps.backends.base import RunBackend
from tfsteps.backends.find import Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.commands.runs import RunId, Task
from tfsteps.cli.place_options import AllNamespaces, Context, Namespace, OnOption

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
            change(backend, selection.of(backend.find(run)), selection)

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
