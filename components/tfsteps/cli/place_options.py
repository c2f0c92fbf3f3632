"""Options of several commands: those that choose the backend location of runs, and `--set`."""

import contextlib
import enum
from typing import Annotated, Any

import typer

from tfsteps.runs.location import Location
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError


class CheckedOn(enum.StrEnum):
    """Where checks of files look beside the files."""

    LOCAL = Location.LOCAL.value
    KUBERNETES = Location.KUBERNETES.value


def _parse_backend_location(text: str) -> str:
    """Return what `--on` takes as it is. BadParameter, with all that is known, for anything else."""
    if registry.is_backend_location(text):
        return text
    raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, map(str, registry.backend_locations())))}")


def _complete_backend_location(incomplete: str) -> list[str]:
    try:
        return [name for name in registry.backend_locations() if name.startswith(incomplete)]
    except LaunchError:  # of a package that cannot be loaded
        return []


def complete_engine(incomplete: str) -> list[tuple[str, str]]:
    """Return the engines whose name begins with `incomplete`, and their titles."""
    from tfsteps.engines import registry as engines  # noqa: PLC0415  other options need no engine

    with contextlib.suppress(Exception):  # a traceback would garble the command line that is being typed
        return [(name, engine.title) for name, engine in engines.plugins().items() if name.startswith(incomplete)]
    return []


def on_option(help: str, show_default: str | bool = True) -> Any:  # noqa: A002  as typer calls them
    """Return the option `--on`: this machine, a cluster, or a platform. The help names those of this package alone."""
    return typer.Option(
        "--on",
        metavar=f"<{'|'.join(registry.OWN_BACKEND_LOCATIONS)}>",
        parser=_parse_backend_location,
        autocompletion=_complete_backend_location,
        help=help,
        show_default=show_default,
    )


OnOption = Annotated[
    str | None,
    on_option(
        "Where to look: the records of this machine, a cluster, or a platform.",
        "local; the platform of a run that this machine records there",
    ),
]
ListOn = Annotated[str, on_option("Runs launched from this machine, on a cluster, or on a platform.")]
Context = Annotated[
    str, typer.Option(metavar="NAME", help="Context of the kubeconfig, for --on kubernetes.", show_default="current")
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="Namespace, for --on kubernetes.", show_default="the context's"
    ),
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="ADDRESS",
        help="Look in the stored records at s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, mlflow or a folder, nowhere else.",
        show_default=False,
    ),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look in all of them.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override a field of the job: env.LR=0.3, roles.worker.replicas=4, args.1=5. VALUE is YAML; null removes "
        "the field. Repeat it for several.",
    ),
]
