"""The job system `jobset`: JobSet, jobset.x-k8s.io/v1alpha2, of kubernetes-sigs/jobset."""

from typing import TYPE_CHECKING

from tfsteps.systems.base import System
from tfsteps.systems.jobset.capabilities import CAPABILITIES
from tfsteps.systems.jobset.options import OPTIONS
from tfsteps.systems.plugin import SystemPlugin

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.job_kind import JobKind


def system(context: str = "", namespace: str = "") -> System:
    """Return the job system, on the cluster that `context` names and in `namespace`; empty = what is configured."""
    from tfsteps.systems.kubernetes.system import KubernetesSystem  # noqa: PLC0415  the options alone are cheap

    return KubernetesSystem(kinds()[0], context, namespace)


def kinds() -> "list[JobKind]":
    """Return the kinds of its job objects: one."""
    from tfsteps.systems.jobset.jobset import JobSet  # noqa: PLC0415

    return [JobSet()]


PLUGIN = SystemPlugin(
    name="jobset",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    system=system,
    kinds=kinds,
    discovery_rank=30,
)
