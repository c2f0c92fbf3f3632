"""The job system `kubeflow`: TFJob, kubeflow.org/v1, of the training operator."""

from typing import TYPE_CHECKING

from tfsteps.systems.base import System
from tfsteps.systems.kubeflow.capabilities import CAPABILITIES
from tfsteps.systems.kubeflow.options import OPTIONS
from tfsteps.systems.plugin import SystemPlugin

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.job_kind import JobKind


def system(context: str = "", namespace: str = "") -> System:
    """Return the job system, on the cluster that `context` names and in `namespace`; empty = what is configured."""
    from tfsteps.systems.kubernetes.system import KubernetesSystem  # noqa: PLC0415  the options alone are cheap

    return KubernetesSystem(kinds()[0], context, namespace)


def kinds() -> "list[JobKind]":
    """Return the kinds of its job objects: one."""
    from tfsteps.systems.kubeflow.tfjob import TFJob  # noqa: PLC0415

    return [TFJob()]


PLUGIN = SystemPlugin(
    name="kubeflow",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    system=system,
    kinds=kinds,
    discovery_rank=10,
)
