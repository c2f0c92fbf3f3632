"""What `tfsteps show` prints of a run under Argo: its steps and launchers, also when a launcher's pod is gone."""

import json
import re
import signal

import pytest
from hera.workflows import DAG

from tests.argo.environment import LONG, job
from tests.argo.test_workflows import shell
from tests.support.waiting import until
from tests.unit.cli.command import output_lines
from tfsteps.kube.resource import PODS
from tfsteps.runs.graph import NodeKind
from tfsteps.runs.identity import ATTEMPT, MANAGED_BY, RUN_ID, TASK

pytestmark = pytest.mark.cluster


def nodes(root, kind):
    """Return the nodes of a kind, by name."""
    below = [pair for child in root["children"] for pair in nodes(child, kind).items()]
    return dict([(root["name"], root)] * (root["kind"] == kind) + below)


def labels(environment, pod):
    return environment.cluster.api.get(PODS, environment.namespace, pod)["metadata"]["labels"]


def graph(environment, run):
    where = ("--on", "kubernetes", "--namespace", environment.namespace)
    data = json.loads("".join(output_lines("show", run, *where, "--output", "json")))
    assert data["notes"] == []
    return data["graph"], "\n".join(output_lines("show", run, *where))


def test_a_run_shows_its_steps_and_its_launcher_and_that_it_is_gone(environment):
    with environment.workflow("seen") as flow, DAG(name="main"):
        prepared = shell("prepare", "true")(name="prepare")
        fit = environment.step("train", retries=0)("fit", **job(LONG))
        _ = prepared >> [fit, shell("later", "sleep 600")(name="later")]
    environment.submit(flow)
    created_job = environment.running("seen")
    run = environment.flows["seen"]["uid"]
    (pod,) = [item for item in environment.launchers("seen") if "-train-" in item["metadata"]["name"]]
    name = pod["metadata"]["name"]

    until(lambda: environment.nodes("seen")["later"]["phase"] == "Running")
    root, text = graph(environment, run)
    (pipeline,) = root["children"]
    assert (pipeline["kind"], pipeline["name"], pipeline["state"]) == ("pipeline", "seen", "running")
    steps = nodes(root, NodeKind.STEP)
    assert {step: item["state"] for step, item in steps.items()} == {"prepare": "succeeded", "later": "running"}
    (launcher,) = nodes(root, NodeKind.LAUNCHER).values()
    assert (launcher["name"], launcher["state"]) == (name, "running")
    assert launcher["host"] == pod["spec"]["nodeName"]
    assert created_job["name"] in nodes(root, NodeKind.JOB)
    assert nodes(root, NodeKind.REPLICA)["worker-0"]["place"].startswith(f"{created_job['name']}-worker-0")
    assert list(nodes(root, NodeKind.SERVICE)) == [f"{created_job['name']}-worker-0"]
    assert f"launcher {name}: running" in text

    until(lambda: labels(environment, name).get(ATTEMPT) == "0")
    assert labels(environment, name).items() >= {"tfsteps.dev/step": "train", RUN_ID: run, TASK: "seen.fit"}.items()
    assert MANAGED_BY.keys().isdisjoint(labels(environment, name)), "jobs and their pods are selected by it"

    environment.patch("seen", {"suspend": True})  # else Argo may make the pod again before it sees that it is gone
    environment.kill(name, signal.SIGSTOP)  # it cannot delete its job
    environment.delete(PODS, name, gracePeriodSeconds=0)
    until(lambda: environment.nodes("seen")["fit(0)"]["phase"] == "Error")
    root, text = graph(environment, run)
    (launcher,) = nodes(root, NodeKind.LAUNCHER).values()
    assert (launcher["state"], launcher["message"]) == ("gone", f"its pod {name} was deleted")
    assert re.search(rf"launcher: gone, .* \(its pod {name} was deleted\)$", text, re.MULTILINE)
    assert nodes(root, NodeKind.REPLICA)["worker-0"]["state"] == "running", "the job goes on"
