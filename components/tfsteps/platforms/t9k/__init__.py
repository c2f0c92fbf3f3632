"""The job system `t9k`: TensorFlowTrainingJob, batch.tensorstack.dev/v1beta1, of TensorStack's platform."""

from collections.abc import Mapping, Sequence

import msgspec

from tfsteps.platforms.t9k.capabilities import CAPABILITIES
from tfsteps.platforms.t9k.options import OPTIONS
from tfsteps.spec import RoleName, TrainingJob
from tfsteps.systems.plugin import kubernetes_plugin


def held(job: TrainingJob, commands: Mapping[RoleName, Sequence[str]]) -> TrainingJob:
    """Return a job in debug mode: the controller has replicas of these roles run `commands` in place of their own."""
    debug = {"debug": True, "debug_commands": {role: list(command) for role, command in commands.items()}}
    systems = {**job.systems, "t9k": {**job.systems.get("t9k", {}), **debug}}
    return msgspec.structs.replace(job, systems=systems)


PLUGIN = kubernetes_plugin(
    "tfsteps.platforms.t9k.trainingjob:TensorFlowTrainingJob",
    name="t9k",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    discovery_rank=20,
    hold=held,
    readers={("batch.tensorstack.dev/v1beta1", "TensorFlowTrainingJob"): "tfsteps.platforms.t9k.reader:read_t9k"},
)
