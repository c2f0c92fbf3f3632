"""The job systems, by name: those of this package, and those that other packages add by an entry point."""

import functools
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tfsteps.runs.location import Location
from tfsteps.spec import Options, RoleName, TrainingJob
from tfsteps.systems.base import System
from tfsteps.systems.capabilities import Capability
from tfsteps.systems.features import FEATURES
from tfsteps.systems.pipeline import FindPipeline, PipelineMember
from tfsteps.systems.plugin import ENTRY_POINTS, Platform, SystemPlugin, load_plugins

if TYPE_CHECKING:
    from tfsteps.kube.resource import Resource
    from tfsteps.systems.kubernetes.job_kind import JobKind


class _KnownSystem(NamedTuple):
    module: str
    has_platform: bool = False


_BUILT_IN = {
    "local": _KnownSystem("tfsteps.systems.local"),
    "kubeflow": _KnownSystem("tfsteps.systems.kubeflow"),
    "t9k": _KnownSystem("tfsteps.platforms.t9k"),
    "tfjob-v1alpha1": _KnownSystem("tfsteps.platforms.tfjob_v1alpha1"),
    "hai": _KnownSystem("tfsteps.platforms.hai", has_platform=True),
    "jobset": _KnownSystem("tfsteps.systems.jobset"),
    "trainjob": _KnownSystem("tfsteps.systems.trainjob"),
    "jobs": _KnownSystem("tfsteps.systems.jobs"),
}
"""The modules of the job systems of this package, which define `PLUGIN`; an outside package has an entry point for it.

Not entry points themselves: a copy of the package without its metadata has these systems too. Whether a plugin has a
platform is stated here, since a command that only checks `--on` loads no plugin.
"""

NAMES = tuple(_BUILT_IN)
"""The job systems of this package."""


_LOCATIONS = frozenset(location.value for location in Location)

OWN_BACKEND_LOCATIONS = (
    Location.LOCAL.value,
    Location.KUBERNETES.value,
    *(name for name, entry in _BUILT_IN.items() if entry.has_platform),
)
"""What `--on` takes without other packages: this machine, clusters, and the platforms of this package."""


def plugin(name: str) -> SystemPlugin:
    """Return the plugin of the job system called `name`. KeyError for an unknown one."""
    if name not in NAMES:
        return _outside()[name]
    declared: SystemPlugin = importlib.import_module(_BUILT_IN[name].module).PLUGIN
    return declared


@functools.cache
def plugins() -> Mapping[str, SystemPlugin]:
    """Return all job systems by name: those of this package first.

    Raises:
        LaunchError: A package declares one that cannot be loaded, or whose name is taken.
    """
    return {**{name: plugin(name) for name in NAMES}, **_outside()}


@functools.cache
def _outside() -> Mapping[str, SystemPlugin]:
    """Return the job systems of other packages by name. LaunchError as `plugins`."""
    return load_plugins(ENTRY_POINTS, SystemPlugin, "job system", {*NAMES, *_LOCATIONS}, _problem)


def exists(name: str) -> bool:
    """Return whether `get` takes a name. Packages of others are looked for only if this package has no such system."""
    return name in NAMES or name in _outside()


def get(name: str, find_pipeline: FindPipeline | None = None, **where: str) -> System:
    """Return the job system called `name`. KeyError for an unknown one.

    Args:
        name: Of `plugins()`.
        find_pipeline: Finds the pipeline of the jobs; None = no pipeline.
        where: `context` and `namespace`, for systems `on_kubernetes`; empty = the configured one.
    """
    system = plugin(name).system(**where)
    if find_pipeline and isinstance(system, PipelineMember):
        system.join_pipeline(find_pipeline)
    return system


def on_kubernetes() -> list[str]:
    """Return the names of the systems whose jobs are Kubernetes objects."""
    return [name for name, declared in plugins().items() if declared.kinds]


def location(name: str) -> str:
    """Return where the jobs of the system called `name` live. LOCAL for an unknown name, which `get` refuses."""
    declared = plugins().get(name)
    if declared is None:
        return Location.LOCAL
    return name if declared.platform else declared.system().location  # a platform may not be configured here


def backend_locations() -> list[str]:
    """Return what `--on` takes: this machine, clusters, and the platforms by the names of their systems.

    Raises:
        LaunchError: As `plugins`.
    """
    outside = [name for name, declared in _outside().items() if declared.platform]
    return [*OWN_BACKEND_LOCATIONS, *outside]


def is_backend_location(name: str) -> bool:
    """Return whether `backend_locations` has a name. Only a name that this package does not know loads plugins."""
    if name in OWN_BACKEND_LOCATIONS:
        return True
    return not (name in NAMES or name in _LOCATIONS) and name in backend_locations()


def platform(name: str) -> Platform:
    """Return the platform of the job system called `name`. KeyError if it has none."""
    if declared := plugin(name).platform:
        return declared
    raise KeyError(name)


def platforms() -> list[Platform]:
    """Return the platforms of all job systems."""
    return [declared.platform for declared in plugins().values() if declared.platform]


def kinds_of(name: str) -> "list[JobKind]":
    """Return the kinds of job object of the system called `name`: usually one; empty = it is not on Kubernetes."""
    list_kinds = plugin(name).kinds
    return list_kinds() if list_kinds else []


def kinds() -> "list[JobKind]":
    """Return the kinds of job object of all systems on Kubernetes."""
    return [kind for name in plugins() for kind in kinds_of(name)]


def discoverable() -> "dict[str, Resource]":
    """Return the resource that each automatically chosen job system needs, in order of `discovery_rank`."""
    ranks = {
        name: declared.discovery_rank for name, declared in plugins().items() if declared.discovery_rank is not None
    }
    return {name: kinds_of(name)[0].resource for name in sorted(ranks, key=ranks.__getitem__)}


def capabilities_of(name: str) -> Mapping[str, Capability]:
    """Return the capabilities of the job system called `name`, by the names of `FEATURES`."""
    return plugin(name).capabilities


def held(name: str, job: TrainingJob, commands: Mapping[RoleName, Sequence[str]]) -> TrainingJob | None:
    """Return a job whose roles run `commands` in the system's debug mode; None = the system has no such mode."""
    hold = plugin(name).hold
    return hold(job, commands) if hold else None


def options() -> Options:
    """Return the type of each system's options, for the parser. Only a system that is looked up is loaded."""
    return _OptionTypes()


class _OptionTypes(Mapping[str, Any]):
    """The types of options by system."""

    def __getitem__(self, name: str) -> Any:
        return plugin(name).options

    def __iter__(self) -> Iterator[str]:
        return iter(plugins())

    def __len__(self) -> int:
        return len(plugins())


def _problem(added: SystemPlugin) -> str:
    if unknown := sorted(added.capabilities.keys() ^ FEATURES.keys()):
        return f"its capabilities and FEATURES differ: {', '.join(unknown)}"
    if added.discovery_rank is not None and added.kinds is None:
        return "it has a discovery_rank, and no kinds to look for on a cluster"
    return "it has kinds of a cluster, and a platform" if added.platform and added.kinds else ""
