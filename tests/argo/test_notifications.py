"""Notifications of a Workflow: of its job by the launcher, of its end by the exit handler. The URL is in a Secret."""

import pytest
from hera.workflows import DAG

from tests.argo.environment import LONG, job
from tests.cluster.paths import NODE_IP
from tests.support.waiting import until
from tests.support.webhook_receiver import PATH, receiver
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.kube.resource import Resource

pytestmark = pytest.mark.cluster

SECRETS = Resource("v1", "secrets", "Secret")
TOKEN = PATH.rpartition("/")[2]
ENDS = {"state": "{{workflow.status}}", "failures": "{{=sprig.trunc(30000, workflow.failures)}}"}


@pytest.fixture(scope="module")
def server(environment):
    """A receiver at the address of this machine on the bridge of the pods, and the Secret with its URL."""
    with receiver(address=NODE_IP) as server:
        environment.create(SECRETS, {"metadata": {"name": "tfsteps-webhook"}, "stringData": {"url": server.url}})
        yield server


@pytest.fixture(scope="module")
def workflows(environment, server):
    """Workflows that run side by side: one whose job fails, one whose launcher is killed, one that succeeds."""
    for name, script in (("notifies-failed", "exit 3"), ("notifies-killed", LONG), ("notifies-end", "exit 0")):
        inputs = job(script)
        inputs["spec"]["notify"] = [{}]
        with environment.workflow(name) as flow, DAG(name="main"):
            environment.step("train", retries=0)("fit", **inputs)
        environment.step("notify").on_exit(flow, **ENDS)
        environment.submit(flow)
    return environment


def sent(server, environment, name):
    """Return the notifications of a Workflow's run."""
    return [request.body for request in server.requests if request.body["run"] == environment.flows[name]["uid"]]


def test_a_job_that_fails_is_notified_by_its_launcher_and_by_the_exit_handler(workflows, server):
    assert workflows.ended("notifies-failed") == "Failed", workflows.why("notifies-failed")
    of_job, of_run = sent(server, workflows, "notifies-failed")
    assert (of_job["scope"], of_job["event"], of_job["failure"]["exit_code"]) == ("job", "failed", 3)
    assert (of_run["scope"], of_run["event"], of_run["state"]) == ("run", "failed", "Failed")
    assert "fit" in [task["name"] for task in of_run["tasks"]]
    assert workflows.output("notifies-failed", "notify", "delivered") == "true"


def test_the_exit_handler_notifies_if_the_launcher_was_killed(workflows, server):
    workflows.running("notifies-killed")
    (pod,) = until(lambda: workflows.launchers("notifies-killed"))
    workflows.kill(pod["metadata"]["name"])
    assert workflows.ended("notifies-killed") == "Failed", workflows.why("notifies-killed")
    (of_run,) = sent(server, workflows, "notifies-killed")
    assert (of_run["scope"], of_run["event"]) == ("run", "failed")
    assert any("137" in task["message"] for task in of_run["tasks"]), of_run


def test_a_success_is_not_among_the_events_of_either(workflows, server):
    assert workflows.ended("notifies-end") == "Succeeded", workflows.why("notifies-end")
    assert workflows.output("notifies-end", "notify", "delivered") == "false"
    assert sent(server, workflows, "notifies-end") == []


@pytest.mark.parametrize("name", ["notifies-failed", "notifies-end"])
def test_the_url_is_in_no_object_and_no_log(workflows, name):
    workflows.ended(name)
    flow = workflows.cluster.api.get(WORKFLOWS, workflows.namespace, name)
    objects = workflows.cluster.kubectl("get", "pods,tfjobs,jobs,events", "-n", workflows.namespace, "-o", "yaml")
    assert TOKEN not in f"{flow}{objects}{workflows.log(name)}"
