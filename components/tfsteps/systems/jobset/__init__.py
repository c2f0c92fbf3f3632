"""The job system `jobset`: JobSet, jobset.x-k8s.io/v1alpha2, of kubernetes-sigs/jobset."""

from tfsteps.systems.jobset.capabilities import CAPABILITIES
from tfsteps.systems.jobset.options import OPTIONS
from tfsteps.systems.plugin import kubernetes_plugin

PLUGIN = kubernetes_plugin(
    "tfsteps.systems.jobset.jobset:JobSet",
    name="jobset",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    discovery_rank=30,
)
