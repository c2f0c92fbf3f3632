"""What distinguishes one kind of job object from another, for the code that follows them all."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from tfsteps.cluster.api import Resource
from tfsteps.identity import Identity
from tfsteps.spec import Problem, RoleName, TrainingJob
from tfsteps.systems.base import Places, Replica, State


class Verdict(msgspec.Struct, frozen=True):
    """What a job object says about its job.

    Attributes:
        state: Where it stands, as far as the object tells.
        reason: Of that state; empty = none.
        message: Of that state; empty = none.
    """

    state: State
    reason: str = ""
    message: str = ""


class RoleSpec(msgspec.Struct, frozen=True):
    """One role of a job object: how many replicas it has, and their pod template."""

    replicas: int
    template: Mapping[str, Any]


class Kind(Protocol):
    """One kind of job object. All of it is pure.

    Attributes:
        name: The job system's.
        resource: The objects' API and kind.
        operator: Who acts on them, as messages call it.
        container: Which container of a pod trains.
    """

    name: str
    resource: Resource
    operator: str
    container: str

    def problems(self, job: TrainingJob) -> list[Problem]:
        """Return what makes `job` impossible as an object of this kind."""

    def warnings(self, job: TrainingJob) -> list[str]:
        """Return a sentence for each thing in `job` that has no effect in an object of this kind."""

    def render(self, job: TrainingJob, identity: Identity, places: Places, namespace: str) -> dict[str, Any]:
        """Return the object for `job`."""

    def verdict(self, item: Mapping[str, Any]) -> Verdict:
        """Return what a job object says."""

    def roles(self, item: Mapping[str, Any]) -> dict[RoleName, RoleSpec]:
        """Return the roles of a job object, in the order chief, worker, ps, evaluator."""

    def selector(self, name: str) -> str:
        """Return the label selector of the pods of the job called `name`."""

    def replica(self, labels: Mapping[str, str]) -> Replica | None:
        """Return which replica a pod with these labels is; None for a pod that is none."""
