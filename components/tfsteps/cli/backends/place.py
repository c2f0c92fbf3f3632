"""On this machine, on a cluster or on HAI Platform: the options that say so, and the backend that they mean."""

import contextlib
import enum
import shlex
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from tfsteps.cli.backends.base import RunBackend
from tfsteps.cli.backends.find import Selection
from tfsteps.cli.errors import CommandError

PATIENCE_SECONDS = 5.0
"""How long a server that does not answer is retried: somebody is waiting at the terminal."""


class On(enum.StrEnum):
    """What `--on` takes."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"
    HAI = "hai"


AUTO = "auto"
"""In place of a job system's name: the one that fits the cluster."""

DEFAULT_SYSTEMS = {On.LOCAL: "local", On.KUBERNETES: AUTO, On.HAI: "hai"}

OnOption = Annotated[
    On | None,
    typer.Option(
        "--on",
        help="Runs launched from this machine, those on a cluster, or those on HAI Platform.",
        show_default="local; hai for a run that its launcher on this machine left there",
    ),
]
Context = Annotated[
    str, typer.Option(metavar="NAME", help="Context of the kubeconfig, for --on kubernetes.", show_default="current")
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="Namespace, for --on kubernetes.", show_default="the context's"
    ),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look in all of them.")]


class Place(msgspec.Struct, frozen=True):
    """Where a command is to look, as its options say.

    Attributes:
        on: This machine, a cluster, or HAI Platform.
        context: Of the kubeconfig; empty = its current one.
        namespace: Empty = the context's.
        everywhere: In all namespaces.
    """

    on: On = On.LOCAL
    context: str = ""
    namespace: str = ""
    everywhere: bool = False

    def __post_init__(self) -> None:
        """Refuse options that contradict one another."""
        if self.everywhere and self.namespace:
            raise CommandError(f"--all-namespaces and --namespace {self.namespace} cannot both hold; leave one out")
        if self.on is not On.KUBERNETES and (self.context or self.namespace or self.everywhere):
            raise CommandError("--context, --namespace and --all-namespaces are about a cluster; add --on kubernetes")

    @property
    def options(self) -> str:
        """The options that lead here again, a blank before each; empty for this machine."""
        if self.on is On.LOCAL:
            return ""
        named = {"--context": self.context, "--namespace": self.namespace}
        every = [" --all-namespaces"] if self.everywhere else []
        return "".join([f" --on {self.on}", *(f" {name} {value}" for name, value in named.items() if value), *every])

    def kubectl(self, namespace: str, *words: str) -> str:
        """Return a command line of kubectl's about what is in `namespace` here, for a terminal."""
        context = ["--context", self.context] if self.context else []
        return shlex.join(["kubectl", *context, "--namespace", namespace, *words])


def located(selection: Selection, on: On | None, context: str, namespace: str, *, everywhere: bool = False) -> Place:
    """Return where a command is to look for a run: as its options say, else where its launcher here left it.

    Raises:
        CommandError: The options contradict one another.
    """
    from tfsteps.cli.backends.local import left_on_hai  # noqa: PLC0415  it imports this module

    if on is None and not (context or namespace or everywhere) and left_on_hai(selection):
        on = On.HAI
    return Place(on or On.LOCAL, context, namespace, everywhere)


@contextlib.contextmanager
def backend(place: Place) -> Iterator[RunBackend[Any]]:
    """Yield the backend of a place, and import no more than it needs. What a server refuses ends the command."""
    match place.on:
        case On.LOCAL:
            from tfsteps.cli.backends.local import LocalBackend  # noqa: PLC0415

            yield LocalBackend()
        case On.KUBERNETES:
            from tfsteps.cli.backends.kubernetes import ClusterBackend, cluster  # noqa: PLC0415

            with cluster(place) as runs:
                yield ClusterBackend(runs, place)
        case On.HAI:
            from tfsteps.cli.backends.hai import hai  # noqa: PLC0415

            with hai() as platform:
                yield platform
