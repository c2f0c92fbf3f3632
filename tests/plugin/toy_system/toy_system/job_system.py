"""The job system: that of local processes, which start with a greeting."""

from typing import Any

import msgspec

from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import TrainingJob
from tfsteps.systems.local.job_system import LocalSystem
from toy_system import CAPABILITIES


class ToySystem(LocalSystem):
    """Starts each replica with the variable GREETING."""

    name = "toy"
    capabilities = CAPABILITIES

    def start(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> Any:
        """Start the replicas."""
        greeting = job.systems.get("toy", {}).get("greeting", "hello")
        return super().start(msgspec.structs.replace(job, env={**job.env, "GREETING": greeting}), identity, paths)
