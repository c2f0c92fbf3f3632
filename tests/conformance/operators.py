"""How the operator of a job system is sent away and called back: nobody works on the job objects meanwhile."""

import contextlib
import pathlib
import signal
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import yaml

from tests.cluster import node
from tests.support.waiting import until
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource

_MANIFESTS = pathlib.Path(__file__).parents[2] / "manifests"
_RUNTIMES = Resource("trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime")
_DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment")


class Operator(Protocol):
    """One that can be sent away."""

    def away(self) -> None:
        """Send it away, and wait until it is gone."""

    def back(self) -> None:
        """Call it back, and wait until it works; nothing if it is there."""


Away = Callable[[Api], contextlib.AbstractContextManager[Operator]]


class _Deployment:
    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api, self._where = api, (namespace, name)
        spec = api.get(_DEPLOYMENTS, namespace, name)["spec"]
        self._replicas = int(spec["replicas"])
        self._labels = ",".join(f"{key}={value}" for key, value in spec["selector"]["matchLabels"].items())

    def away(self) -> None:
        self._scale(0)
        until(lambda: not self._running())  # one that is being deleted may still act

    def back(self) -> None:
        self._scale(self._replicas)

    def _scale(self, replicas: int) -> None:
        self._api.patch(_DEPLOYMENTS, *self._where, {"spec": {"replicas": replicas}})
        until(lambda: self._available() == replicas)  # an operator may make certificates first

    def _running(self) -> list[Any]:
        chosen = {"labelSelector": self._labels, "fieldSelector": "status.phase=Running"}
        return list(self._api.list(PODS, self._where[0], **chosen)["items"])

    def _available(self) -> int:
        return int(self._api.get(_DEPLOYMENTS, *self._where)["status"].get("availableReplicas", 0))


class _Component:
    def __init__(self, name: str) -> None:
        self._name = name

    def away(self) -> None:
        node.send(self._name, signal.SIGSTOP)

    def back(self) -> None:
        node.send(self._name, signal.SIGCONT)


def runtimes() -> None:
    """Install the runtimes that TrainJobs name."""
    api = Api(access.find())
    for file in sorted((_MANIFESTS / "trainjob-runtimes").glob("tensorflow-*.yaml")):
        item = yaml.safe_load(file.read_text())
        try:
            api.create(_RUNTIMES, "", item)
        except ApiError as error:
            if error.status != 409:
                raise
            api.patch(_RUNTIMES, "", item["metadata"]["name"], item)


def deployment(namespace: str, name: str) -> Away:
    """Return how a Deployment of the cluster is sent away."""
    return lambda api: _returning(_Deployment(api, namespace, name))


def component(name: str) -> Away:
    """Return how a component of the cluster that this machine runs is sent away."""
    return lambda _api: _returning(_Component(name))


@contextlib.contextmanager
def _returning(operator: Operator) -> Iterator[Operator]:
    """Yield an operator; whatever happens, it is back afterwards."""
    try:
        yield operator
    finally:
        operator.back()
