"""`tfsteps role`: what a cluster's administrator grants to the steps that launch jobs."""

import re
from typing import Annotated

import typer

from tfsteps.console.errors import CommandError
from tfsteps.systems import registry

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


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
    import yaml  # noqa: PLC0415  this command alone writes YAML

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
