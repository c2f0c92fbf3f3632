"""On this machine, on a cluster or on HAI Platform: the options that say so."""

import contextlib
import enum
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tfsteps.cli.backends.find import find_attempts, find_run
from tfsteps.cli.errors import CommandError
from tfsteps.engines.registry import find_origin
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs import store
from tfsteps.systems import registry

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.query.runs import Runs

_PATIENCE_SECONDS = 5.0  # somebody is waiting at the terminal


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


@contextlib.contextmanager
def cluster(place: Place) -> Iterator["Runs"]:
    """Yield what has been launched on the cluster of `place`; what the cluster refuses ends the command."""
    from tfsteps.kube import access, client  # noqa: PLC0415  local runs need no HTTP
    from tfsteps.kube.errors import ApiError  # noqa: PLC0415
    from tfsteps.systems.kubernetes.query.runs import Runs  # noqa: PLC0415

    try:
        found = access.find(place.context)
        api = client.Api(found, patience=_PATIENCE_SECONDS)
        namespace = "" if place.everywhere else place.namespace or found.namespace
        yield Runs(api, registry.kinds(), namespace, find_origin)
    except access.AccessError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise CommandError(str(error), ExitCode.PLATFORM if error.unavailable else ExitCode.USAGE) from error


def located(
    run: str, task: str | None, on: On | None, context: str, namespace: str, *, everywhere: bool = False
) -> Place:
    """Return where a command is to look for a run: as its options say, else where its launcher here left it.

    Raises:
        CommandError: The options contradict one another.
    """
    if on is None and not (context or namespace or everywhere) and _left_on_hai(run, task):
        on = On.HAI
    return Place(on or On.LOCAL, context, namespace, everywhere)


def _left_on_hai(run: str, task: str | None) -> bool:
    """Tell whether tasks of HAI were left by launchers that were killed, and no launcher of the run is alive here."""
    if not store.runs():
        return False
    with contextlib.suppress(CommandError, OSError):  # the command says what is wrong
        attempts = find_attempts(find_run(run), task)
        left = [status for attempt in attempts if (status := attempt.status()).reason == store.ABANDONED]
        return any(status.system == On.HAI for status in left) and not any(attempt.alive() for attempt in attempts)
    return False
