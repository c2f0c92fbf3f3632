"""For operators: `tfsteps platform`, the settings of a platform, and `tfsteps role`, what launchers may do."""

import enum
import os
import re
from collections.abc import Iterator
from typing import Annotated, Any

import typer
import yaml

from tfsteps.api.job_input import read_file
from tfsteps.cli.place_options import Overrides
from tfsteps.console.errors import CommandError
from tfsteps.console.inputs import read_text
from tfsteps.settings.apply import Applied, apply
from tfsteps.settings.parse import load, parse
from tfsteps.spec import Path, dotted
from tfsteps.spec.parse import to_plain
from tfsteps.systems import registry

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class PlatformAction(enum.StrEnum):
    """What is done with the settings."""

    CHECK = "check"


def platform(
    action: Annotated[PlatformAction, typer.Argument(metavar="ACTION", help="check: report problems of the settings.")],  # noqa: ARG001
    file: Annotated[str, typer.Argument(metavar="FILE", help="The settings: their file; `-` reads it.")],
    job: Annotated[
        str | None, typer.Argument(metavar="JOB", help="A job file, `-` reads it: print what such a job gets.")
    ] = None,
    *,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Namespace of the job; it decides whose project the job is of.",
            show_default="default",
        ),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Check platform settings, and show what a job gets by them.

    Every problem is printed with its line. With a job, each of its fields is printed with the setting that sets it;
    fields without one are the job's own. Exits 2 for wrong settings, and for a job that they refuse.
    """
    if file == job == "-":
        raise CommandError("FILE and JOB are both `-`; write one of them to a file")
    if job is None and (overrides or namespace is not None):
        raise CommandError("--set and --namespace are about a job; add JOB, the job file")
    if file == "-":
        settings = parse(read_text("-", "platform settings"), "stdin", registry.options())
    else:
        settings = load(file, registry.options())
    layers = settings.layers("default" if namespace is None else namespace)
    if job is None:
        projects = f"; projects: {', '.join(settings.projects)}" if settings.projects else ""
        print(f"{file}: the settings are fine{projects}")
        return
    source = read_file(job, overrides or ())
    applied = apply(source.job, layers, os.environ, file, registry.options())
    rows = [(dotted(path), text, _origin(applied, path) or job) for path, text in _leaves(to_plain(applied.job), ())]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for field, text, origin in rows:
        print(f"{field:{widths[0]}}  {text:{widths[1]}}  {origin}")


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the values of a job with their paths; an entry of a list is one value."""
    if isinstance(value, dict) and value and not any(isinstance(part, int) for part in path):
        for key, part in value.items():
            yield from _leaves(part, (*path, key))
    elif isinstance(value, list) and path[-1] in ("volumes", "tolerations", "image_pull_secrets"):
        for i, part in enumerate(value):
            yield from _leaves(part, (*path, i))
    else:
        yield (
            path,
            yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).split("\n...")[0].strip(),
        )


def _origin(applied: Applied, path: Path) -> str:
    parents = (path[:length] for length in range(len(path), 0, -1))
    return next((applied.origins[parent] for parent in parents if parent in applied.origins), "")


def role(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Name of a job system on Kubernetes.")],
    *,
    service_account: Annotated[
        str, typer.Option(metavar="NAME", help="ServiceAccount of the pipeline's steps.")
    ] = "default",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the pipeline's runs.")] = "default",
    opt_in: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME",
            help="Also what launchers need to create pods that read event files (readers), or a TensorBoard "
            "(tensorboard). Repeatable.",
        ),
    ] = None,
) -> None:
    """Print the Role and RoleBinding that launchers of a job system need.

    For `kubectl apply -f -`. The Role is made from the job system itself, so this also works for one that another
    package adds.
    """
    from tfsteps.systems import roles  # noqa: PLC0415
    from tfsteps.systems.kubernetes.permissions import OPT_IN  # noqa: PLC0415

    if system not in (known := registry.on_kubernetes()):
        raise CommandError(f"job system {system!r} is not one on Kubernetes: use one of {', '.join(known)}")
    for option, value in {"--namespace": namespace, "--service-account": service_account}.items():
        if not _NAME.fullmatch(value):
            raise CommandError(f"{option} {value!r} is not a name: write lower-case letters, digits, '-' and '.'")
    if unknown := [item for item in opt_in or () if item not in OPT_IN]:
        raise CommandError(f"--with {unknown[0]!r} is not known: use {' or '.join(OPT_IN)}")
    name = f"tfsteps-{system}"
    manifests = [
        {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
        for manifest in (
            roles.role(name, roles.rules(roles.permissions(system, opt_in or ()))),
            roles.role_binding(name, namespace, service_account),
        )
    ]
    print(yaml.safe_dump_all(manifests, sort_keys=False), end="")
