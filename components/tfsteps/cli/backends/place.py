"""The options that choose a place, this machine, a cluster or HAI Platform, and the backend of that place."""

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
from tfsteps.runs.location import Location

PATIENCE_SECONDS = 5.0
"""How long requests are retried when a server does not answer; short, since a user waits at the terminal."""


class On(enum.StrEnum):
    """What `--on` takes."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"
    HAI = "hai"


AUTO = "auto"
"""In place of a job system's name: the one whose API the cluster serves."""

DEFAULT_SYSTEMS = {On.LOCAL: "local", On.KUBERNETES: AUTO, On.HAI: "hai"}

OnOption = Annotated[
    On | None,
    typer.Option(
        "--on",
        help="Where to look: the records of this machine, a cluster, or HAI Platform.",
        show_default="local; hai for a run that this machine records there",
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
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="ADDRESS",
        help="Look in the stored records at s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or a folder, and nowhere else.",
        show_default=False,
    ),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look in all of them.")]


def on_of(location: Location | None) -> On:
    """Return the value of `--on` for jobs that live at a location: LOCAL also for those that only records lead to."""
    return On(location.value) if location in (Location.KUBERNETES, Location.HAI) else On.LOCAL


class Place(msgspec.Struct, frozen=True):
    """Where a command looks for runs, as its options say.

    Attributes:
        on: This machine, a cluster, or HAI Platform.
        context: A context of the kubeconfig; empty = the current one.
        namespace: A namespace; empty = that of the context.
        everywhere: Look in all namespaces.
        records: An address of stored records, in place of all that; empty = none.
    """

    on: On = On.LOCAL
    context: str = ""
    namespace: str = ""
    everywhere: bool = False
    records: str = ""

    def __post_init__(self) -> None:
        """Refuse options that contradict one another."""
        if self.records and (self.on is not On.LOCAL or self.context or self.namespace or self.everywhere):
            raise CommandError(
                f"--from {self.records} and the options of another place cannot both hold; leave one out"
            )
        if self.everywhere and self.namespace:
            raise CommandError(f"--all-namespaces and --namespace {self.namespace} cannot both hold; leave one out")
        if self.on is not On.KUBERNETES and (self.context or self.namespace or self.everywhere):
            raise CommandError("--context, --namespace and --all-namespaces are about a cluster; add --on kubernetes")

    @property
    def options(self) -> str:
        """The options that choose this place, with a space before each; empty for this machine."""
        if self.records:
            return f" --from {shlex.quote(self.records)}"
        if self.on is On.LOCAL:
            return ""
        named = {"--context": self.context, "--namespace": self.namespace}
        options = [f" {name} {value}" for name, value in named.items() if value]
        return "".join([f" --on {self.on}", *options, " --all-namespaces" * self.everywhere])

    def kubectl(self, namespace: str, *words: str) -> str:
        """Return a command line of kubectl about objects in `namespace` of this cluster, for a terminal."""
        return shlex.join(self.kubectl_words(namespace, *words))

    def kubectl_words(self, namespace: str, *words: str) -> list[str]:
        """Return the same command line as words."""
        context = ["--context", self.context] if self.context else []
        return ["kubectl", *context, "--namespace", namespace, *words]


def located(
    selection: Selection, on: On | None, context: str, namespace: str, *, everywhere: bool = False, records: str = ""
) -> Place:
    """Return where a command looks for a run: as its options say, else where a killed launcher left it.

    Raises:
        CommandError: The options contradict one another.
    """
    from tfsteps.cli.backends.local import left_at  # noqa: PLC0415  it imports this module

    if on is None and not (context or namespace or everywhere or records) and Location.HAI in left_at(selection):
        on = On.HAI
    return Place(on or On.LOCAL, context, namespace, everywhere, records)


@contextlib.contextmanager
def open_backend(place: Place, *, gone: bool = False) -> Iterator[RunBackend[Any]]:
    """Yield the backend of a place, and import no more than it needs. What a server refuses ends the command.

    Args:
        place: Where to look.
        gone: On a cluster, also jobs whose objects are gone, by their stored records: for commands that only read.
    """
    if place.records:
        from tfsteps.cli.backends.stored import StoredBackend, settings_at  # noqa: PLC0415

        yield StoredBackend(settings_at(place.records))
        return
    match place.on:
        case On.LOCAL:
            from tfsteps.cli.backends.local import LocalBackend  # noqa: PLC0415

            yield LocalBackend()
        case On.KUBERNETES:
            from tfsteps.cli.backends.kubernetes import ClusterBackend, cluster  # noqa: PLC0415

            with cluster(place) as runs:
                backend = ClusterBackend(runs, place)
                if gone:
                    from tfsteps.cli.backends.stored import MergedBackend  # noqa: PLC0415

                    yield MergedBackend(backend, runs, place)
                else:
                    yield backend
        case On.HAI:
            from tfsteps.cli.backends.hai import hai  # noqa: PLC0415

            with hai() as platform:
                yield platform
