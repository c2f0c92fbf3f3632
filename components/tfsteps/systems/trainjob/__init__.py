"""The job system `trainjob`: TrainJob, trainer.kubeflow.org/v1alpha1, of Kubeflow Trainer 2.0 to 2.3."""

from typing import TYPE_CHECKING

from tfsteps.systems.base import System
from tfsteps.systems.plugin import SystemPlugin
from tfsteps.systems.trainjob.capabilities import CAPABILITIES
from tfsteps.systems.trainjob.options import OPTIONS

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.job_kind import JobKind


def system(context: str = "", namespace: str = "") -> System:
    """Return the job system, on the cluster that `context` names and in `namespace`; empty = what is configured."""
    from tfsteps.systems.kubernetes.system import KubernetesSystem  # noqa: PLC0415  the options alone are cheap

    return KubernetesSystem(kinds()[0], context, namespace)


def kinds() -> "list[JobKind]":
    """Return the kinds of its job objects: one."""
    from tfsteps.systems.trainjob.trainjob import TrainJob  # noqa: PLC0415

    return [TrainJob()]


# Never chosen automatically: a cluster that serves its API may lack the runtimes that its jobs name. Where it is
# served, JobSet usually is too, and can do more.
PLUGIN = SystemPlugin(
    name="trainjob",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    system=system,
    kinds=kinds,
    plan_note="The TrainJob is shown as Trainer 2.2 and newer take it; on 2.0 and 2.1 it is created with their fields.",
)
