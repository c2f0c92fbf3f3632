"""The job system `t9k`: TensorFlowTrainingJob, batch.tensorstack.dev/v1beta1, of TensorStack's platform."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from tfsteps.spec import RoleName, TrainingJob
from tfsteps.systems.base import System
from tfsteps.systems.plugin import SystemPlugin
from tfsteps.systems.t9k.capabilities import CAPABILITIES
from tfsteps.systems.t9k.options import OPTIONS

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.job_kind import JobKind


def system(context: str = "", namespace: str = "") -> System:
    """Return the job system, on the cluster that `context` names and in `namespace`; empty = what is configured."""
    from tfsteps.systems.kubernetes.system import KubernetesSystem  # noqa: PLC0415  the options alone are cheap

    return KubernetesSystem(kinds()[0], context, namespace)


def kinds() -> "list[JobKind]":
    """Return the kinds of its job objects: one."""
    from tfsteps.systems.t9k.trainingjob import TensorFlowTrainingJob  # noqa: PLC0415

    return [TensorFlowTrainingJob()]


def held(job: TrainingJob, commands: Mapping[RoleName, Sequence[str]]) -> TrainingJob:
    """Return a job in debug mode: the controller has replicas of these roles run `commands` in place of their own."""
    debug = {"debug": True, "debug_commands": {role: list(command) for role, command in commands.items()}}
    systems = {**job.systems, "t9k": {**job.systems.get("t9k", {}), **debug}}
    return msgspec.structs.replace(job, systems=systems)


PLUGIN = SystemPlugin(
    name="t9k",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    system=system,
    kinds=kinds,
    discovery_rank=20,
    hold=held,
)
