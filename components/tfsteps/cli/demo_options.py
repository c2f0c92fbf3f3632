"""The options `--demo` and `--picture`."""

from typing import Annotated

import typer

from tfsteps.console.errors import CommandError
from tfsteps.console.text import clean
from tfsteps.runs.demo import Mark, picture_problem

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
    if wrong := picture_problem(picture):
        raise CommandError(f"--picture {clean(picture[:60])!r} {wrong}")
    return Mark(picture) if demo else None
