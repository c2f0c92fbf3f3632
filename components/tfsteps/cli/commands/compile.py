"""`tfsteps compile`: a program to what its engine takes."""

import pathlib
import sys
from typing import Annotated

import typer

from tfsteps.backends.place import Place
from tfsteps.cli.compiled import check, compile_program, settings_refusals
from tfsteps.console.errors import CommandError
from tfsteps.engines.compiled import LintError
from tfsteps.spec import format_bytes

PipelineName = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="NAME",
        help="Name of the pipeline, if the program has several.",
        show_default="the only one, or that of the file's name",
    ),
]


def compile(  # noqa: A001  the command's name
    pipeline: Annotated[
        str, typer.Argument(metavar="PIPELINE.py", help="A program with a @dsl.pipeline, or a Workflow of Hera.")
    ],
    *,
    output: Annotated[
        pathlib.Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write. Left out: standard output."),
    ] = None,
    name: PipelineName = None,
) -> None:
    """Compile a pipeline for Kubeflow Pipelines or Argo Workflows.

    Writes YAML to be uploaded, submitted or applied, after the checks of `tfsteps lint`: a pipeline with a problem is
    not written. The program is imported, not run as a program. Jobs are checked against the platform settings of the
    file that TFSTEPS_SETTINGS names.
    """
    compiled = compile_program(pipeline, name)
    check(compiled)
    if refused := settings_refusals(compiled, Place()):
        raise LintError(compiled.source, refused)
    size = format_bytes(len(compiled.text.encode()))
    if output is None:
        print(compiled.text, end="")
    else:
        try:
            output.write_text(compiled.text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{str(output)!r} cannot be written: {error}; choose another file") from error
    place = "" if output is None else f"{output}: "
    print(f"{place}{compiled.name} for {compiled.engine}, {size}, no problems", file=sys.stderr)
