"""The job systems that the table of cases is run for. Another one is a row more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tfsteps.cluster.api import Resource
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.kind import Kind


@dataclass(frozen=True)
class System:
    """What the cases must know of a job system beside its name.

    Attributes:
        name: As `--system` takes it.
        kind: Its kind of object.
        operator: Namespace and name of the Deployment that works on such objects.
        suspend: Returns the merge patch that suspends or resumes a job from outside.
        created_suspended: Fields of a job file that create the job suspended.
        refused: Fields of a job file that the operator's webhook refuses, and what it says then.
    """

    name: str
    kind: Callable[[], Kind]
    operator: tuple[str, str]
    suspend: Callable[[bool], Mapping[str, Any]]
    created_suspended: Mapping[str, Any]
    refused: tuple[Mapping[str, Any], str]

    @property
    def resource(self) -> Resource:
        """Of its objects."""
        return self.kind().resource


SYSTEMS = [
    System(
        "kubeflow",
        TFJob,
        operator=("kubeflow", "training-operator"),
        suspend=lambda suspended: {"spec": {"runPolicy": {"suspend": suspended}}},
        created_suspended={"systems": {"kubeflow": {"suspend": True}}},
        refused=({"pod": {"spec": {"containers": [{"name": "sidecar"}]}}}, "image"),
    )
]
