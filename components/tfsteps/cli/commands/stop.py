"""`tfsteps stop`: ends a running job through its launcher, or on a cluster by deleting it."""

from typing import Annotated

import typer

from tfsteps.backends.find import Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.backends.whole_runs import stop_pipeline
from tfsteps.cli.commands.runs import RunId, Task
from tfsteps.cli.place_options import AllNamespaces, Context, Namespace, OnOption
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
        target = backend.find(run)
        if task is None and target.pipeline and target.pipeline.state is State.RUNNING:
            stop_pipeline(target.pipeline, now=now)
            return
        backend.stop(selection.of(target), now=now)
