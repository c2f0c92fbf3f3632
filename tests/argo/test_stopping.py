"""What becomes of a job when something happens to its Workflow, its step, or its launcher's pod.

Stopped, terminated, out of time or deleted: the job goes. Its launcher's pod drained: the job stays, and the next pod
adopts it; test_lost_launchers.py has the other ways, by retry policy.
"""

import time

import pytest
from hera.workflows import Steps

from tests.argo.environment import LONG, WORKFLOWS, job
from tests.argo.test_workflows import shell
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
SECONDS = 5.0
"""Within which a cancelled run leaves no job, its launcher being alive."""


@pytest.fixture(scope="module")
def flows(environment):
    """Submit all Workflows, which run side by side, and first those whose time runs."""
    environment.submit(environment.one("step-deadline", LONG, settings={"active_deadline_seconds": 75}))
    environment.submit(environment.one("workflow-deadline", LONG, active_deadline_seconds=90))
    for name in OUT_OF_TIME:
        environment.running(name)  # before there are so many that it is not up in time
    environment.submit(environment.one("drained", HELD, on_exit=False))
    for name in (*STOPS, "deleted"):
        environment.submit(environment.one(name, LONG))
    environment.submit(environment.one("left", LONG, settings={"retries": 0}))
    environment.submit(suspended(environment))


def suspended(environment):
    """Return a Workflow of two steps."""
    with environment.workflow("suspended") as flow:
        second = shell("second", "true")
        with Steps(name="main"):
            environment.step("train")("first", **job(HELD))
            second(name="second")
    return flow


def running(environment, name):
    """Return the launcher's pod of a Workflow and the uid of its job, which runs."""
    created_job = environment.running(name)
    (pod,) = environment.launchers(name)
    return pod["metadata"], created_job["uid"]


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
    until(lambda: any(launcher["metadata"]["uid"] != pod["uid"] for launcher in environment.launchers("drained")))
    environment.release("drained")
    assert environment.ended("drained") == "Succeeded", environment.why("drained")
    assert [item["uid"] for item in environment.jobs("drained")] == [uid], "a recreated launcher went on with the job"


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
    chosen = {"labelSelector": f"workflows.argoproj.io/workflow={name},tfsteps.dev/step=train"}
    (pod,) = environment.cluster.api.list(PODS, environment.namespace, **chosen)["items"]
    (main,) = [item for item in pod["status"]["containerStatuses"] if item["name"] == "main"]
    end = main["state"]["terminated"]
    assert (end["exitCode"], "cancelled" in end["message"]) == (12, True), end


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
    assert [item["uid"] for item in environment.jobs("suspended")] == [uid], "what runs goes on"
    assert "second" not in environment.nodes("suspended"), "nothing new begins"
    environment.patch("suspended", {"suspend": None})
    assert environment.ended("suspended") == "Succeeded", environment.why("suspended")
    assert environment.nodes("suspended")["second"]["phase"] == "Succeeded"


@pytest.mark.usefixtures("flows")
@pytest.mark.parametrize("name", OUT_OF_TIME)
def test_out_of_time(name, environment):
    assert environment.ended(name) == "Failed", environment.why(name)
    assert "] up" in environment.log(name), "there was a job"
    assert environment.jobs(name) == []
    assert environment.nodes(name)[f"{name}.onExit"]["phase"] == "Succeeded", environment.why(name)
    tries = [node for node in environment.nodes(name) if node.startswith("fit(")]
    assert tries == ["fit(0)"], "what is out of time is not tried again"
