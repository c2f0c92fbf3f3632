"""The job system `trainjob`: TrainJob, trainer.kubeflow.org/v1alpha1, of Kubeflow Trainer 2.0 to 2.3."""

from tfsteps.systems.plugin import kubernetes_plugin
from tfsteps.systems.trainjob.capabilities import CAPABILITIES
from tfsteps.systems.trainjob.options import OPTIONS

# Never chosen automatically: a cluster that serves its API may lack the runtimes that its jobs name. Where it is
# served, JobSet usually is too, and can do more.
PLUGIN = kubernetes_plugin(
    "tfsteps.systems.trainjob.trainjob:TrainJob",
    name="trainjob",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    plan_note="The TrainJob is shown as Trainer 2.2 and newer take it; on 2.0 and 2.1 it is created with their fields.",
)
