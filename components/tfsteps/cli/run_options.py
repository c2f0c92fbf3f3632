"""Options of several commands about runs: which one, `--output`, `--demo` and `--picture`."""

from typing import Annotated

import typer

from tfsteps.cli.completion import complete_run
from tfsteps.console.errors import CommandError
from tfsteps.console.outputs import OutputFormat
from tfsteps.console.text import clean
from tfsteps.runs.demo import Mark, picture_problem

RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id of the run, the beginning of one, or `latest`. The name of a task, a job or a pipeline: its newest "
        "run. On a cluster also the name of its object.",
        autocompletion=complete_run,
    ),
]
Task = Annotated[str | None, typer.Option(help="Only this task of the run.")]
AttemptNumber = Annotated[int | None, typer.Option(min=0, help="This attempt. Left out: the newest of each task.")]
OutputOption = Annotated[OutputFormat, typer.Option(help="text for people, json for programs.")]
Demo = Annotated[
    bool, typer.Option("--demo", help="Mark it as a demo: `runs` lists it first, and no command deletes or changes it.")
]
Picture = Annotated[
    str, typer.Option(metavar="URL", help="With --demo: address of its picture, https:// or data:image/.")
]


def demo_mark(demo: bool, picture: str) -> Mark | None:
    """Return the mark that the options ask for; None = no demo. CommandError for a picture that cannot be shown."""
    if picture and not demo:
        raise CommandError("--picture is the picture of a demo; add --demo, or leave it out")
    if picture and (wrong := picture_problem(picture)):
        raise CommandError(f"--picture {clean(picture[:60])!r} {wrong}")
    return Mark(picture) if demo else None
