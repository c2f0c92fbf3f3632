"""The job system `jobs`: plain Kubernetes Jobs, one for each role. Needs no operator."""

from typing import TYPE_CHECKING

from tfsteps.systems.base import System
from tfsteps.systems.jobs.capabilities import CAPABILITIES
from tfsteps.systems.jobs.options import OPTIONS
from tfsteps.systems.plugin import SystemPlugin

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.job_kind import JobKind


def system(context: str = "", namespace: str = "") -> System:
    """Return the job system, on the cluster that `context` names and in `namespace`; empty = what is configured."""
    from tfsteps.systems.kubernetes.system import KubernetesSystem  # noqa: PLC0415  the options alone are cheap

    return KubernetesSystem(kinds()[0], context, namespace)


def kinds() -> "list[JobKind]":
    """Return the kinds of its job objects: one."""
    from tfsteps.systems.jobs.job import IndexedJobs  # noqa: PLC0415

    return [IndexedJobs()]


PLUGIN = SystemPlugin(
    name="jobs",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    system=system,
    kinds=kinds,
    discovery_rank=90,
)
