"""The job systems that the table of cases is run for. Another one is a row more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance import operators
from tests.controllers import install as controllers
from tfsteps.kube.resource import Resource
from tfsteps.systems import registry
from tfsteps.systems.capabilities import Capability
from tfsteps.systems.kubernetes.job_kind import JobKind


@dataclass(frozen=True)
class System:
    """What the cases must know of a job system beside its name.

    Attributes:
        name: As `--system` takes it.
        away: Given the cluster, a context in which its operator can be sent away and called back.
        refused: Fields of a job file that the API server or the operator's webhook refuses, and what it says then; None
            = they refuse nothing.
        install: Puts on the cluster what `tests.cluster up` does not.
    """

    name: str
    away: operators.Away
    refused: tuple[Mapping[str, Any], str] | None = (
        {"pod": {"spec": {"containers": [{"name": "tensorflow", "image": ""}]}}},
        "image",
    )
    install: Callable[[], None] = lambda: None

    @property
    def kind(self) -> JobKind:
        """Its kind of object."""
        return registry.kinds_of(self.name)[0]

    @property
    def resource(self) -> Resource:
        """Of its objects."""
        return self.kind.resource

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """What it can do."""
        return registry.capabilities_of(self.name)

    def created_suspended(self) -> Mapping[str, Any]:
        """Return fields of a job file that create the job suspended."""
        return {"systems": {self.name: {"suspend": True}}}


def _controller(name: str, refused: tuple[Mapping[str, Any], str] | None) -> System:
    """Return a system whose operator is a test controller."""
    away = operators.deployment(controllers.NAMESPACE, name)
    return System(name, away, refused, install=lambda: controllers.up([name]))


SYSTEMS = [
    System("kubeflow", operators.deployment("kubeflow", "training-operator")),
    System(
        "jobset",
        operators.deployment("jobset-system", "jobset-controller-manager"),
        refused=({"pod": {"spec": {"tolerations": [{"nonsense": 1}]}}}, "nonsense"),
    ),
    System(
        "trainjob",
        operators.deployment("kubeflow-system", "kubeflow-trainer-controller-manager"),
        install=operators.runtimes,
        refused=({"systems": {"trainjob": {"runtime": "none"}}}, "kubectl apply -k manifests/trainjob-runtimes"),
    ),
    System("jobs", operators.component("controller-manager")),
    _controller(
        "t9k", ({"pod": {"spec": {"containers": [{"name": "sidecar", "image": "x", "ports": [{}]}]}}}, "containerPort")
    ),
    _controller("tfjob-v1alpha1", None),  # its API server accepts anything
]
