"""The job system: that of local processes, which start with a greeting."""

from typing import Any

import msgspec

from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import Problem, TrainingJob
from tfsteps.systems.local.job_system import LocalSystem


class ToySystem(LocalSystem):
    """Starts each replica with the variable GREETING."""

    name = "toy"

    def problems(self, job: TrainingJob) -> list[Problem]:
        """Refuse GPUs."""
        roles = [role for _, role in job.roles.items()]
        if not any(place.resources and place.resources.gpu for place in (job, *roles)):
            return super().problems(job)
        wrong, fix = "is not possible: a toy has no GPU", "Remove it, or use another job system"
        return [*super().problems(job), Problem(path=("resources", "gpu"), wrong=wrong, fix=fix)]

    def start(self, job: TrainingJob, identity: Identity, places: OutputPaths) -> Any:
        """Start the replicas."""
        greeting = job.systems.get("toy", {}).get("greeting", "hello")
        return super().start(msgspec.structs.replace(job, env={**job.env, "GREETING": greeting}), identity, places)
