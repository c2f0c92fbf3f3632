"""A cluster whose node has four slots that only the jobs of these tests use, and a environment for each test."""

import os
import pathlib

import pytest

from tests.cluster import paths
from tests.conformance.environment import Environment
from tests.conformance.systems import SYSTEMS
from tests.support.waiting import until
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.resource import Resource

IMAGE = os.environ.get("TFSTEPS_BUSYBOX_IMAGE", "docker.io/library/busybox:latest")
SLOT = "tfsteps.dev/slot"
SLOTS = 4
_NODES = Resource("v1", "nodes", "Node")
_DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment")
_OPERATOR = ("kubeflow", "training-operator")
_SCHEDULER = ("scheduler-plugins", "scheduler-plugins-scheduler")


@pytest.fixture(scope="session")
def api():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", os.environ.get("KUBECONFIG", str(paths.KUBECONFIG)))
        assert pathlib.Path(os.environ["KUBECONFIG"]).exists(), "run `make cluster`, or set KUBECONFIG"
        api = Api(access.find())
        api.get(_DEPLOYMENTS, *_SCHEDULER)  # `python -m tests.cluster up --only scheduler-plugins` installs it
        yield api


@pytest.fixture(scope="session")
def slots(api):
    """Give a node slots: a resource that nobody keeps but the scheduler, and nobody else asks for."""
    name = api.list(_NODES, "")["items"][0]["metadata"]["name"]
    _count_slots(api, name, str(SLOTS))
    yield
    _count_slots(api, name, None)


def _count_slots(api, node, number):
    counts = {"status": {"capacity": {SLOT: number}, "allocatable": {SLOT: number}}}
    api.request("PATCH", _NODES.path("", node, "status"), {}, counts)


@pytest.fixture(
    params=[system for system in SYSTEMS if system.name in ("kubeflow", "jobset", "jobs")],
    ids=lambda system: system.name,
)
def environment(request, api, slots, tmp_path):
    with Environment(request.param, api, IMAGE, tmp_path / "environment") as environment:
        yield environment
        for job in environment.jobs():
            environment.delete(job)
        until(lambda: not environment.pods(leaving=True))  # the next test needs the slots


@pytest.fixture
def gang_operator(api):
    """Start the training operator as a cluster may have it: it makes the PodGroups, and all its jobs are gangs."""
    before = api.get(_DEPLOYMENTS, *_OPERATOR)["spec"]["template"]["spec"]["containers"]
    ours = [
        {**item, "args": [*item.get("args", ()), "--gang-scheduler-name=scheduler-plugins-scheduler"]}
        for item in before
    ]
    _roll_out(api, ours)
    yield
    _roll_out(api, before)


def _roll_out(api, containers):
    patch = {
        "spec": {
            "strategy": {"type": "Recreate", "rollingUpdate": None},
            "template": {"spec": {"containers": containers}},
        }
    }
    generation = api.patch(_DEPLOYMENTS, *_OPERATOR, patch)["metadata"]["generation"]

    def done():
        status = api.get(_DEPLOYMENTS, *_OPERATOR)["status"]
        return (
            status["observedGeneration"] >= generation
            and status.get("availableReplicas") == status.get("updatedReplicas") == 1
        )

    until(done)
