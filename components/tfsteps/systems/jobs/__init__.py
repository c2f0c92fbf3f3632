"""The job system `jobs`: plain Kubernetes Jobs, one for each role. Needs no operator."""

from tfsteps.systems.jobs.capabilities import CAPABILITIES
from tfsteps.systems.jobs.options import OPTIONS
from tfsteps.systems.plugin import kubernetes_plugin

PLUGIN = kubernetes_plugin(
    "tfsteps.systems.jobs.job:IndexedJobs",
    name="jobs",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    discovery_rank=90,
)
