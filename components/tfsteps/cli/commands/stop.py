"""`tfsteps stop`: ends a running job through its launcher, or on a cluster by deleting it."""

from typing import Annotated

import typer

from tfsteps.cli.backends.find import Selection
from tfsteps.cli.backends.place import AllNamespaces, Context, Namespace, OnOption, located, open_backend
from tfsteps.cli.commands.runs import RunId, Task


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
    """Stop a run and wait until it has ended."""
    selection = Selection(run, task)
    with open_backend(located(selection, on, context, namespace, everywhere=all_namespaces)) as backend:
        backend.stop(selection.of(backend.find(run)), now=now)
