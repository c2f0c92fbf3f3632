"""What becomes of a job when something happens to its Workflow, its step, or its launcher's pod.

Stopped, terminated, out of time or deleted: the job goes. Its launcher's pod drained or killed: the job stays, and the
next pod adopts it; test_lost_launchers.py has the other ways, by retry policy.
"""

import time

import pytest
from hera.workflows import Steps

from tests.argo.environment import LONG, WORKFLOWS, job
from tests.preflight.conftest import HELD
from tests.support.waiting import until
from tfsteps.kube.resource import PODS, Resource

pytestmark = pytest.mark.cluster

NODES = Resource("v1", "nodes", "Node")
STOPS = {
    "stopped": ({"shutdown": "Stop"}, True),
    "terminated": ({"shutdown": "Terminate"}, False),
    "as-kubeflow": ({"activeDeadlineSeconds": 0}, True),
}
OUT_OF_TIME = ("step-deadline", "workflow-deadline")
MOVES = ("drained", "killed")
SECONDS = 5.0
"""Within which a cancelled run leaves no job, its launcher being alive."""


@pytest.fixture(scope="module")
def flows(environment):
    """Submit all Workflows, which run side by side, and first those whose time runs."""
    environment.submit(environment.one("step-deadline", LONG, settings={"active_deadline_seconds": 75}))
    environment.submit(environment.one("workflow-deadline", LONG, active_deadline_seconds=90))
    for name in OUT_OF_TIME:
        environment.running(name)  # before there are so many that it is not up in time
    for name in MOVES:
        environment.submit(environment.one(name, HELD))
    for name in (*STOPS, "deleted"):
        environment.submit(environment.one(name, LONG))
    environment.submit(environment.one("left", LONG, settings={"retries": 0}))
    environment.submit(suspended(environment))


def suspended(environment):
    """Return a Workflow of two steps."""
    with environment.workflow("suspended") as flow, Steps(name="main"):
        environment.step("train")("first", **job(HELD))
        environment.step("train")("second", **job("echo up"))
    return flow


def running(environment, name):
    """Return the launcher's pod of a Workflow and the uid of its job, which runs."""
    made = environment.running(name)
    (pod,) = environment.launchers(name)
    return pod["metadata"], made["uid"]


def adopted(environment, name, pod, uid):
    """Check that a launcher made anew goes on with the job, and the Workflow succeeds with that one job."""
    until(lambda: any(launcher["metadata"]["uid"] != pod["uid"] for launcher in environment.launchers(name)))
    environment.release(name)
    assert environment.ended(name) == "Succeeded", environment.why(name)
    assert [item["uid"] for item in environment.jobs(name)] == [uid]


@pytest.mark.usefixtures("flows")
def test_drained(environment):
    pod, uid = running(environment, "drained")
    node = environment.cluster.api.get(PODS, environment.namespace, pod["name"])["spec"]["nodeName"]
    environment.cluster.api.patch(NODES, "", node, {"spec": {"unschedulable": True}})
    try:
        environment.evict(pod["name"])
        time.sleep(3)
        assert [item["uid"] for item in environment.jobs("drained")] == [uid]
    finally:
        environment.cluster.api.patch(NODES, "", node, {"spec": {"unschedulable": None}})
    adopted(environment, "drained", pod, uid)


@pytest.mark.usefixtures("flows")
def test_killed(environment):
    pod, uid = running(environment, "killed")
    environment.kill(pod["name"])
    adopted(environment, "killed", pod, uid)
    tries = [environment.nodes("killed")[item]["phase"] for item in ("fit(0)", "fit(1)")]
    assert tries == ["Failed", "Succeeded"], environment.why("killed")


@pytest.mark.usefixtures("flows")
@pytest.mark.parametrize("name", STOPS)
def test_stopped(name, environment, record_property):
    spec, exit_handler = STOPS[name]
    environment.running(name)
    record_property("seconds", environment.gone(name, environment.patch(name, spec), SECONDS))
    assert environment.ended(name) == "Failed", environment.why(name)
    time.sleep(1)
    assert (f"{name}.onExit" in environment.nodes(name)) is exit_handler
    if exit_handler:
        until(lambda: environment.nodes(name)[f"{name}.onExit"]["phase"] == "Succeeded")
        assert environment.decoded(name, "cleanup", "removed") == [], "its launcher did it"
    until(lambda: not environment.launchers(name))
    assert environment.jobs(name) == []


@pytest.mark.usefixtures("flows")
def test_deleted(environment, record_property):
    environment.running("deleted")
    record_property("seconds", environment.gone("deleted", environment.delete(WORKFLOWS, "deleted"), SECONDS))
    assert not environment.exists("deleted")


@pytest.mark.usefixtures("flows")
def test_the_finalizer_removes_what_a_launcher_left(environment, record_property):
    pod, _ = running(environment, "left")
    since = time.monotonic()
    environment.kill(pod["name"])
    assert environment.ended("left") == "Failed", environment.why("left")
    record_property("seconds", environment.gone("left", since, 60))
    assert environment.nodes("left")["left.onExit"]["phase"] == "Succeeded"
    assert len(environment.decoded("left", "cleanup", "removed")) == 1


@pytest.mark.usefixtures("flows")
def test_suspended(environment):
    _, uid = running(environment, "suspended")
    environment.patch("suspended", {"suspend": True})
    environment.release("suspended")
    until(lambda: not environment.launchers("suspended"))
    time.sleep(2)
    assert [item["uid"] for item in environment.jobs("suspended")] == [uid], "what runs goes on, nothing new begins"
    environment.patch("suspended", {"suspend": None})
    assert environment.ended("suspended") == "Succeeded", environment.why("suspended")
    assert len(environment.jobs("suspended")) == 2


@pytest.mark.usefixtures("flows")
@pytest.mark.parametrize("name", OUT_OF_TIME)
def test_out_of_time(name, environment):
    assert environment.ended(name) == "Failed", environment.why(name)
    assert "] up" in environment.log(name), "there was a job"
    assert environment.jobs(name) == []
    assert environment.nodes(name)[f"{name}.onExit"]["phase"] == "Succeeded", environment.why(name)
    tries = [node for node in environment.nodes(name) if node.startswith("fit(")]
    assert tries == ["fit(0)"], "what is out of time is not tried again"
