"""`tfsteps compile` and `tfsteps lint`: a program to what its engine takes, and the checks of that."""

import pathlib
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from tfsteps.backends.backend_location import BackendLocation
from tfsteps.cli.compiled import check, compile_program, lint_messages, read, settings_refusals, warnings
from tfsteps.cli.output_files import write_output
from tfsteps.cli.place_options import CheckedOn, Context, Namespace
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.engines import registry
from tfsteps.engines.authoring import Compiled, LintError
from tfsteps.runs.location import Location
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
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE.py", help="A program that defines a pipeline.")],
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
    if refused := settings_refusals(compiled, BackendLocation()):
        raise LintError(compiled.source, refused)
    size = format_bytes(len(compiled.text.encode()))
    if output is None:
        print(compiled.text, end="")
    else:
        write_output(output, compiled.text)
    location = "" if output is None else f"{output}: "
    print(f"{location}{compiled.name} for {compiled.engine}, {size}, no problems", file=sys.stderr)


_OnOption = Annotated[
    CheckedOn,
    typer.Option("--on", help="kubernetes: look on a cluster, too, for platform settings, and objects that pods name."),
]


def lint(
    compiled: Annotated[
        list[str],
        typer.Argument(metavar="COMPILED.yaml...", help="Compiled pipelines, YAML or JSON; `-` reads standard input."),
    ],
    *,
    on: _OnOption = CheckedOn.LOCAL,
    context: Context = "",
    namespace: Namespace = "",
) -> None:
    """Check compiled pipelines.

    Those of Kubeflow Pipelines for what works on this machine and fails on a cluster; manifests of Argo Workflows for
    fields that it drops, for references to missing templates, and for wrong inputs of the steps of tfsteps. Prints
    every problem and warning. Exits 2 if there is a problem. A value that can still be set at submission causes a
    warning.

    Jobs are checked against the platform settings of the file that TFSTEPS_SETTINGS names, or, with `--on kubernetes`,
    of the namespace.

    Sends no requests to a cluster unless `--on kubernetes` is given. Then PersistentVolumeClaims, Secrets, ConfigMaps
    and ServiceAccounts that the pipelines' pods name and that are missing there are warnings, too: a step that uses one
    stays Pending. Objects that may not be read are not checked.
    """
    location = BackendLocation(on.value, context, namespace)
    count = 0
    for file in compiled:
        pipeline = read(file)
        problems = lint_messages(registry.plugin(pipeline.engine), pipeline.text)
        for warning in warnings(pipeline):
            warn(f"{pipeline.source}: {warning}")
        problems = problems or settings_refusals(pipeline, location)
        count += len(problems)
        for problem in problems:
            say(f"{pipeline.source}: {problem}")
        for warning in pipeline.authoring.missing_arguments(pipeline.text):
            warn(f"{pipeline.source}: {warning}")
        if not problems:
            for warning in _missing(pipeline, location):
                warn(f"{pipeline.source}: {warning}")
            print(f"{pipeline.source}: {pipeline.name} for {pipeline.engine} is fine")
    if count:
        raise CommandError(f"{count} problem{'s' if count > 1 else ''}; correct the program and compile it again")


def _missing(compiled: Compiled, location: BackendLocation) -> Iterator[str]:
    """Yield a warning for each object that a valid pipeline names and that its cluster does not have."""
    if location.on == Location.LOCAL:
        return
    from tfsteps.backends.kubernetes.backend import cluster  # noqa: PLC0415  most checks need no HTTP
    from tfsteps.engines.cluster_checks import missing_objects  # noqa: PLC0415

    with cluster(location) as runs:
        for namespace, references in compiled.authoring.references(compiled.documents):
            yield from missing_objects(runs.api, location.namespace or namespace or runs.namespace, references)
