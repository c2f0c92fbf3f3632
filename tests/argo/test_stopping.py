"""What becomes of a job when something happens to its Workflow, its step, or its launcher's pod.

Stopped, terminated, out of time or deleted: the job goes. Its launcher's pod drained or killed: the job stays, and the
next pod adopts it; test_lost_launchers.py has the other ways, by retry policy.
"""

import time

import pytest
from hera.workflows import Steps

from tests.argo.world import LONG, WORKFLOWS, job
from tests.preflight.conftest import HELD
from tests.support.waiting import until
from tfsteps.kube.client import Resource
from tfsteps.kube.logs import PODS

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
def flows(world):
    """Submit all Workflows, which run side by side, and first those whose time runs."""
    world.submit(world.one("step-deadline", LONG, settings={"active_deadline_seconds": 75}))
    world.submit(world.one("workflow-deadline", LONG, active_deadline_seconds=90))
    for name in OUT_OF_TIME:
        world.running(name)  # before there are so many that it is not up in time
    for name in MOVES:
        world.submit(world.one(name, HELD))
    for name in (*STOPS, "deleted"):
        world.submit(world.one(name, LONG))
    world.submit(world.one("left", LONG, settings={"retries": 0}))
    world.submit(suspended(world))


def suspended(world):
    """Return a Workflow of two steps."""
    with world.workflow("suspended") as flow, Steps(name="main"):
        world.step("train")("first", **job(HELD))
        world.step("train")("second", **job("echo up"))
    return flow


def running(world, name):
    """Return the launcher's pod of a Workflow and the uid of its job, which runs."""
    made = world.running(name)
    (pod,) = world.launchers(name)
    return pod["metadata"], made["uid"]


def adopted(world, name, pod, uid):
    """Check that a launcher made anew goes on with the job, and the Workflow succeeds with that one job."""
    until(lambda: any(each["metadata"]["uid"] != pod["uid"] for each in world.launchers(name)))
    world.release(name)
    assert world.ended(name) == "Succeeded", world.why(name)
    assert [each["uid"] for each in world.jobs(name)] == [uid]


@pytest.mark.usefixtures("flows")
def test_drained(world):
    pod, uid = running(world, "drained")
    node = world.cluster.api.get(PODS, world.namespace, pod["name"])["spec"]["nodeName"]
    world.cluster.api.patch(NODES, "", node, {"spec": {"unschedulable": True}})
    try:
        world.evict(pod["name"])
        time.sleep(3)
        assert [each["uid"] for each in world.jobs("drained")] == [uid]
    finally:
        world.cluster.api.patch(NODES, "", node, {"spec": {"unschedulable": None}})
    adopted(world, "drained", pod, uid)


@pytest.mark.usefixtures("flows")
def test_killed(world):
    pod, uid = running(world, "killed")
    world.kill(pod["name"])
    adopted(world, "killed", pod, uid)
    tries = [world.nodes("killed")[each]["phase"] for each in ("fit(0)", "fit(1)")]
    assert tries == ["Failed", "Succeeded"], world.why("killed")


@pytest.mark.usefixtures("flows")
@pytest.mark.parametrize("name", STOPS)
def test_stopped(name, world, record_property):
    spec, exit_handler = STOPS[name]
    world.running(name)
    record_property("seconds", world.gone(name, world.patch(name, spec), SECONDS))
    assert world.ended(name) == "Failed", world.why(name)
    time.sleep(1)
    assert (f"{name}.onExit" in world.nodes(name)) is exit_handler
    if exit_handler:
        until(lambda: world.nodes(name)[f"{name}.onExit"]["phase"] == "Succeeded")
        assert world.decoded(name, "cleanup", "removed") == [], "its launcher did it"
    until(lambda: not world.launchers(name))
    assert world.jobs(name) == []


@pytest.mark.usefixtures("flows")
def test_deleted(world, record_property):
    world.running("deleted")
    record_property("seconds", world.gone("deleted", world.delete(WORKFLOWS, "deleted"), SECONDS))
    assert not world.exists("deleted")


@pytest.mark.usefixtures("flows")
def test_the_finalizer_removes_what_a_launcher_left(world, record_property):
    pod, _ = running(world, "left")
    since = time.monotonic()
    world.kill(pod["name"])
    assert world.ended("left") == "Failed", world.why("left")
    record_property("seconds", world.gone("left", since, 60))
    assert world.nodes("left")["left.onExit"]["phase"] == "Succeeded"
    assert len(world.decoded("left", "cleanup", "removed")) == 1


@pytest.mark.usefixtures("flows")
def test_suspended(world):
    _, uid = running(world, "suspended")
    world.patch("suspended", {"suspend": True})
    world.release("suspended")
    until(lambda: not world.launchers("suspended"))
    time.sleep(2)
    assert [each["uid"] for each in world.jobs("suspended")] == [uid], "what runs goes on, nothing new begins"
    world.patch("suspended", {"suspend": None})
    assert world.ended("suspended") == "Succeeded", world.why("suspended")
    assert len(world.jobs("suspended")) == 2


@pytest.mark.usefixtures("flows")
@pytest.mark.parametrize("name", OUT_OF_TIME)
def test_out_of_time(name, world):
    assert world.ended(name) == "Failed", world.why(name)
    assert "] up" in world.log(name), "there was a job"
    assert world.jobs(name) == []
    assert world.nodes(name)[f"{name}.onExit"]["phase"] == "Succeeded", world.why(name)
    tries = [each for each in world.nodes(name) if each.startswith("fit(")]
    assert tries == ["fit(0)"], "what is out of time is not tried again"
