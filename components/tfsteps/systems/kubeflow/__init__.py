"""The job system `kubeflow`: TFJob, kubeflow.org/v1, of the training operator."""

from tfsteps.systems.kubeflow.capabilities import CAPABILITIES
from tfsteps.systems.kubeflow.options import OPTIONS
from tfsteps.systems.plugin import kubernetes_plugin

PLUGIN = kubernetes_plugin(
    "tfsteps.systems.kubeflow.tfjob:TFJob",
    name="kubeflow",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    discovery_rank=10,
)
