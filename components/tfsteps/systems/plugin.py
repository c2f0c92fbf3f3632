"""The declaration of a job system by a package; docs/contribute/job-system.md shows an example.

`load_plugins` loads those of other packages, for job systems, platforms and engines.
"""

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from tfsteps.spec import RoleName, TrainingJob
from tfsteps.systems.base import LaunchError, System
from tfsteps.systems.capabilities import Capability

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.job_kind import JobKind

ENTRY_POINTS = "tfsteps.systems"
"""Group of the entry points of packages that add a job system. Each refers to a `SystemPlugin`."""

Hold = Callable[[TrainingJob, Mapping[RoleName, Sequence[str]]], TrainingJob]


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """A platform on which the jobs of one system live: `--on NAME`, with the system's name, finds them.

    Attributes:
        title: Its name for people, such as `HAI`.
        backend: Returns a context manager that yields the `tfsteps.backends.platform.PlatformBackend` of the platform
            that is configured, and raises CommandError for what the platform refuses.
        enforces_total: Whether it ends a job at `deadlines.total` itself, without a launcher.
        sweep: For the janitor, a `tfsteps.janitor.sweep.PlatformSweep`; None = the platform cleans up by itself.
        kind: What the janitor's metrics call a job of the platform; empty without `sweep`.
    """

    title: str
    backend: Callable[[], AbstractContextManager[Any]]
    enforces_total: bool = False
    sweep: Callable[..., Any] | None = None
    kind: str = ""


class SystemPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """One job system. Functions return what is expensive to import: options and capabilities are read without it.

    Attributes:
        name: Its name in `--system` and in the job file's `systems:`.
        options: Type of the options below `systems: {<name>: ...}` in a job file: a frozen `msgspec.Struct`, its fields
            described under `Attributes`.
        capabilities: How the system handles each name in `features.FEATURES`: natively, by tfsteps, refused, or unused.
        system: Returns the job system. Kubernetes systems take `context` and `namespace`; empty = the configured one.
        kinds: Returns the kinds of its job objects on Kubernetes; None = its jobs are not Kubernetes objects. The
            janitor, the commands `runs`, `stop` and `pause`, and the manifests of permissions use them.
        platform: Where its jobs live if commands find them neither on this machine nor on a cluster; the `location` of
            the system is its name then. None = there, or nowhere.
        readers: The functions that read a manifest for `tfsteps import`, as `module:function`, by apiVersion and kind;
            each is a `tfsteps.imports.read.Reader`. A document of kind "" has neither, but a number `version`:
            its apiVersion is "version 2".
        command_lines: The functions that read a command line of another launcher for `tfsteps import --command`, as
            `module:function`, by the line's first word; each is a `tfsteps.imports.read.LineReader`.
        discovery_rank: If no job system is named, the lowest rank is chosen whose first kind the cluster serves and
            permits to create; None = never chosen automatically.
        hold: For `tfsteps debug --hold`: returns a job whose roles run the commands in a debug mode of the system;
            None = tfsteps replaces the commands itself.
        missing_access: Given the names of the variables that the launcher of a step gets, returns a sentence for each
            address or credential that it probably lacks.
        permanent_failures: Reasons of a failed job that mean: the exit code of a replica, below 128, was one that the
            system does not retry. What was killed later is a result of that.
        plan_note: A sentence about the objects of `run --dry-run`, which asks no cluster; empty = they are as created.
    """

    name: str
    options: type[msgspec.Struct]
    capabilities: Mapping[str, Capability]
    system: Callable[..., System]
    kinds: "Callable[[], list[JobKind]] | None" = None
    platform: Platform | None = None
    readers: Mapping[tuple[str, str], str] = {}
    command_lines: Mapping[str, str] = {}
    discovery_rank: int | None = None
    hold: Hold | None = None
    missing_access: Callable[[Collection[str]], Sequence[str]] = lambda _names: ()
    permanent_failures: Collection[str] = ()
    plan_note: str = ""


def kubernetes_plugin(kind: str, **fields: Any) -> SystemPlugin:
    """Return the plugin of a job system on Kubernetes whose jobs are objects of one kind.

    Args:
        kind: `module:Class` of its `JobKind`, imported when a job is created or looked for.
        fields: Of the plugin, without `system` and `kinds`.
    """

    def kinds() -> "list[JobKind]":
        return [load(kind)()]

    def system(context: str = "", namespace: str = "") -> System:
        from tfsteps.systems.kubernetes.system import KubernetesSystem  # noqa: PLC0415  the options alone are cheap

        return KubernetesSystem(kinds()[0], context, namespace)

    return SystemPlugin(system=system, kinds=kinds, **fields)


def load(target: str) -> Any:
    """Return what `target` names, written `module:name`, and import the module."""
    module, _, name = target.partition(":")
    return attrgetter(name)(importlib.import_module(module))


class _NamedPlugin(Protocol):
    @property
    def name(self) -> str: ...


_P = TypeVar("_P", bound=_NamedPlugin)


def load_plugins(
    group: str, kind: type[_P], noun: str, taken: Collection[str], problem: Callable[[_P], str] = lambda _plugin: ""
) -> dict[str, _P]:
    """Return the plugins of other packages by name, in the order of their entry points.

    Args:
        group: Of the entry points.
        kind: The class of the plugins.
        noun: What a plugin declares, for messages: `job system`.
        taken: Names that a plugin must not have.
        problem: Returns what else is wrong with a plugin; empty = nothing.

    Raises:
        LaunchError: A plugin cannot be loaded, has a name that is taken, or is wrong.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415  few commands need other packages

    plugins: dict[str, _P] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        package = f" of package {entry.dist.name} {entry.dist.version}" if entry.dist else ""
        declared = f"entry point {entry.name!r} in {group}{package} ({entry.value})"
        fix = "Correct or uninstall that package"
        try:
            plugin = entry.load()
        except Exception as error:
            raise LaunchError(f"{declared}: it cannot be loaded: {error!r}. {fix}", retryable=False) from error
        if not isinstance(plugin, kind):
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            wrong = f"it refers to a {type(plugin).__name__}, not {article} {kind.__name__}"
        elif plugin.name in plugins or plugin.name in taken:
            wrong = f"its {noun}'s name {plugin.name!r} is taken"
        else:
            wrong = problem(plugin)
        if wrong:
            raise LaunchError(f"{declared}: {wrong}. {fix}", retryable=False)
        plugins[plugin.name] = plugin
    return plugins
