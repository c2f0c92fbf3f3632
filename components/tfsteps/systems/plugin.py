"""What a package declares about the job system that it adds; docs/contribute/job-system.md shows an example."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from tfsteps.spec import RoleName, TrainingJob
from tfsteps.systems.base import System
from tfsteps.systems.capabilities import Capability

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.job_kind import JobKind

ENTRY_POINTS = "tfsteps.systems"
"""Group of the entry points of packages that add a job system. Each refers to a `SystemPlugin`."""

Hold = Callable[[TrainingJob, Mapping[RoleName, Sequence[str]]], TrainingJob]


class SystemPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """One job system. What is expensive to import is returned by a function: each command loads all plugins.

    Attributes:
        name: What `--system` and the job file's `systems:` call it.
        options: Type of what a job file may say below `systems: {<name>: ...}`: a frozen `msgspec.Struct`, its fields
            described under `Attributes`.
        capabilities: For each name in `features.FEATURES` what the system does about it: what it refuses and warns of.
        system: Returns the job system. Those on Kubernetes take `context` and `namespace`; empty = what is configured.
        kinds: Returns the kinds of its job objects on Kubernetes; None = its jobs are no Kubernetes objects. The
            janitor, the commands `runs`, `stop` and `pause`, and the manifests of permissions follow from them.
        discovery_rank: Where nobody names a job system, a cluster gets the one with the lowest rank whose first kind
            it serves; None = never chosen automatically.
        hold: For `tfsteps debug --hold`: returns a job whose roles run the given commands by a mode of the system's
            own; None = tfsteps replaces the commands itself.
    """

    name: str
    options: type[msgspec.Struct]
    capabilities: Mapping[str, Capability]
    system: Callable[..., System]
    kinds: "Callable[[], list[JobKind]] | None" = None
    discovery_rank: int | None = None
    hold: Hold | None = None
