"""The command line: every command under its name."""

from collections.abc import Callable
from typing import Annotated

import typer
from typer.core import TyperCommand

import tfsteps
from tfsteps.cli.commands import (
    attach,
    clear,
    compare,
    debug,
    files,
    lint,
    logs,
    pause,
    prune,
    report,
    rerun,
    rm,
    role,
    run,
    runs,
    shell,
    show,
    stop,
    submit,
    tensorboard,
)
from tfsteps.cli.commands import compile as compiling
from tfsteps.cli.errors import Group

app = typer.Typer(
    cls=Group,
    rich_markup_mode=None,  # plain help: quick, stable, and the same in docs/reference/cli.md
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_CLASSES: dict[Callable[..., None], type[TyperCommand]] = {run.run: run.RunCommand, shell.shell: shell.ShellCommand}
for command in (
    run.run,
    attach.attach,
    rerun.rerun,
    runs.runs,
    show.show,
    compare.compare,
    logs.logs,
    shell.shell,
    debug.debug,
    stop.stop,
    pause.pause,
    pause.resume,
    tensorboard.tensorboard,
    rm.rm,
    clear.clear,
    prune.prune,
    report.report,
    files.init,
    files.validate,
    files.schema,
    compiling.compile,
    lint.lint,
    submit.submit,
    role.role,
):
    app.command(cls=_CLASSES.get(command))(command)


def _version(value: bool) -> None:
    if value:
        print(f"tfsteps {tfsteps.__version__}")
        raise typer.Exit


@app.callback()
def tfsteps_command(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Distributed TensorFlow jobs, here and on clusters: run them, watch them, stop them.

    Run folders live in $TFSTEPS_HOME, by default ~/.local/state/tfsteps.
    """
