"""`tfsteps lint`: what an engine would stumble over in a compiled pipeline."""

from typing import Annotated

import typer

from tfsteps.cli.compiled import read
from tfsteps.cli.errors import CommandError, tell


def lint(
    compiled: Annotated[
        list[str],
        typer.Argument(metavar="COMPILED.yaml...", help="Compiled pipelines, YAML or JSON; `-` reads standard input."),
    ],
) -> None:
    """Check compiled pipelines.

    Those of Kubeflow Pipelines for what works on this machine and fails on a cluster; manifests of Argo Workflows for
    fields that it drops, and for references that lead nowhere. Every problem is printed. Exits 2 if there is any.
    """
    count = 0
    for file in compiled:
        found = read(file)
        problems = found.problems()
        count += len(problems)
        for each in problems:
            tell(f"{found.source}: {each}")
        if not problems:
            print(f"{found.source}: {found.name} for {found.engine} is fine")
    if count:
        raise CommandError(f"{count} problem{'s' if count > 1 else ''}; mend the program and compile it anew")
