"""The places where runs live: this machine, a cluster, a platform, or stored records."""

import shlex

import msgspec

from tfsteps.console.errors import CommandError
from tfsteps.runs.location import HomeCluster, Location
from tfsteps.runs.status import Status
from tfsteps.systems import registry

AUTO = "auto"
"""In place of a job system's name: the one whose API the cluster serves."""


def on_of(location: str) -> str:
    """Return the value of `--on` for jobs that live at a location: LOCAL also for those that only records lead to."""
    return location if registry.is_backend_location(location) else Location.LOCAL


class BackendLocation(msgspec.Struct, frozen=True):
    """Where a command looks for runs, as its options say.

    Attributes:
        on: LOCAL or KUBERNETES of `Location`, or the name of a platform.
        context: A context of the kubeconfig; empty = the current one.
        namespace: A namespace; empty = that of the context.
        everywhere: Look in all namespaces.
        records: An address of stored records, in place of all that; empty = none.
        home: Of a job that is on another cluster, by its record: where `context` is defined. None = the context is the
            user's.
    """

    on: str = Location.LOCAL
    context: str = ""
    namespace: str = ""
    everywhere: bool = False
    records: str = ""
    home: HomeCluster | None = None

    @classmethod
    def of(cls, status: Status) -> "BackendLocation":
        """Return where a job is that a launcher of this machine has recorded."""
        if (on := on_of(status.location)) != Location.KUBERNETES:
            return cls(on)
        return cls(on, status.reached_by, status.namespace, home=status.home)

    def by(self, context: str) -> "BackendLocation":
        """Return the same place, reached by a context of the user's if that is not empty."""
        if context in ("", self.context):
            return self
        return msgspec.structs.replace(self, context=context, home=None)

    def __post_init__(self) -> None:
        """Refuse options that contradict one another."""
        if self.records and (self.on != Location.LOCAL or self.context or self.namespace or self.everywhere):
            raise CommandError(
                f"--from {self.records} and the options of another place cannot both hold; leave one out"
            )
        if self.everywhere and self.namespace:
            raise CommandError(f"--all-namespaces and --namespace {self.namespace} cannot both hold; leave one out")
        if self.on != Location.KUBERNETES and (self.context or self.namespace or self.everywhere):
            raise CommandError("--context, --namespace and --all-namespaces are about a cluster; add --on kubernetes")

    @property
    def options(self) -> str:
        """The options that choose this place, with a space before each; empty for this machine."""
        if self.records:
            return f" --from {shlex.quote(self.records)}"
        if self.on == Location.LOCAL:
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
