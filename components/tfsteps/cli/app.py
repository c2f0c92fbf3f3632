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
_GROUPS: dict[str, dict[Callable[..., None], tuple[str, ...]]] = {
    "Run a job": {
        run.run: ("tfsteps run job.yaml", "tfsteps run --workers 2 -- python train.py --epochs 5"),
        attach.attach: ("tfsteps attach latest",),
        rerun.rerun: ("tfsteps rerun latest --set env.LR=0.3", "tfsteps rerun nightly -p epochs=5"),
        stop.stop: ("tfsteps stop latest",),
        pause.pause: ("tfsteps pause mnist --on kubernetes",),
        pause.resume: ("tfsteps resume mnist --on kubernetes",),
    },
    "Look at runs": {
        runs.runs: ("tfsteps runs --state failed --since 1d", "tfsteps runs --metric accuracy --sort accuracy"),
        show.show: ("tfsteps show latest",),
        logs.logs: ("tfsteps logs latest worker-1 --follow", "tfsteps logs latest --grep 'loss: nan' -C 3"),
        report.report: ("tfsteps report latest --open",),
        compare.compare: ("tfsteps compare mnist-k7c2 mnist-p4xq --html compared.html",),
        tensorboard.tensorboard: ("tfsteps tensorboard latest --open",),
        debug.debug: ("tfsteps debug latest", "tfsteps debug job.yaml --hold worker"),
        shell.shell: ("tfsteps shell latest worker-1 -- env",),
    },
    "Write job files": {
        files.init: ("tfsteps init mnist", "tfsteps init mnist --template keras"),
        files.validate: ("tfsteps validate job.yaml --system kubeflow",),
        files.schema: ("tfsteps schema --output job.schema.json",),
    },
    "Pipelines": {
        compiling.compile: ("tfsteps compile pipeline.py -o pipeline.yaml",),
        lint.lint: ("tfsteps lint pipeline.yaml",),
        submit.submit: (
            "tfsteps submit pipeline.py --engine local",
            "tfsteps submit pipeline.py --host https://kubeflow.example/pipeline -p epochs=5 --wait",
        ),
        role.role: ("tfsteps role jobset -n team | kubectl apply -f -",),
    },
    "Remove runs": {
        rm.rm: ("tfsteps rm mnist-k7c2",),
        clear.clear: ("tfsteps clear mnist-k7c2 --on kubernetes",),
        prune.prune: ("tfsteps prune --older-than 30d --keep 20 --dry-run",),
    },
}
"""The commands of each part of the help, with their examples."""

for title, commands in _GROUPS.items():
    for command, examples in commands.items():
        lines = "\n".join(f"  {example}" for example in examples)
        app.command(cls=_CLASSES.get(command), rich_help_panel=title, epilog=f"Examples:\n\n\b\n{lines}")(command)


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
