"""`tfsteps shell`: a shell or a command in a replica."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tfsteps.backends.find import Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.completion import complete_replica
from tfsteps.cli.place_options import AllNamespaces, Context, Namespace, OnOption
from tfsteps.cli.run_options import AttemptNumber, RunId, Task
from tfsteps.console.errors import CommandError

_COMMAND = "tfsteps.shell.command"  # key in the context's `meta`


class ShellCommand(TyperCommand):
    """Keeps what comes after `--`: else its first word would be read as the replica."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before `--`."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[end + 1 :]
        return super().parse_args(ctx, args[:end])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def shell(
    ctx: typer.Context,
    run: RunId,
    replica: Annotated[
        str | None,
        typer.Argument(
            metavar="REPLICA",
            help="`worker-1`, or on a cluster a container beside its program, `worker-1/name`.",
            show_default="the one that decides how the job ends",
            autocompletion=complete_replica,
        ),
    ] = None,
    *,
    task: Task = None,
    attempt: AttemptNumber = None,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Open a shell in a replica, or run a command there: `tfsteps shell RUN worker-1 -- nvidia-smi`.

    On a cluster it is a shell in the container of a running replica; kubectl has to be installed. On this machine it
    is a shell in the replica's folder with its environment, also after its end. The exit code is that of the command.
    """
    selection = Selection(run, task, attempt)
    with open_backend(located(selection, on, context, namespace, everywhere=all_namespaces)) as backend:
        jobs = selection.of(backend.find(run))
        if len(jobs) > 1:
            tasks = ", ".join(job.status.identity.task for job in jobs)
            raise CommandError(f"run {jobs[0].status.identity.run} has several tasks: {tasks}; choose one with --task")
        backend.shell(jobs[0], replica, ctx.meta[_COMMAND])
