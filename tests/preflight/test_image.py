"""The launcher's image, in a pod of a namespace where only restricted pods may run."""

import json
import re

import msgspec
import pytest

from tests.preflight.conftest import HELD, ROOT, exists, grant, namespace_of, release
from tests.support.waiting import until
from tfsteps.engines.kfp.executor import ARGUMENT
from tfsteps.kube.resource import PODS
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.render.pod_template import CONTAINER

pytestmark = pytest.mark.cluster

NOT_ROOT = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
UNPRIVILEGED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
OUTPUTS = "/tmp/run/pipeline/run/{name}/11111111-2222-3333-4444-555555555555/outputs.json"
VERSIONS = """
import importlib.metadata, json
print(json.dumps({package.name.lower(): package.version for package in importlib.metadata.distributions()}))
"""
AND_SHOW_OUTPUTS = """
python -m tfsteps.steps.train.launcher "$@"
code=$?
echo "outputs: $(cat /tmp/run/*/*/*/*/outputs.json)"
exit $code
"""


@pytest.fixture(scope="module")
def namespace(cluster, tmp_path_factory):
    with namespace_of(cluster, **{"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        grant(cluster, namespace, "launcher")
        yield namespace


def pod(image, name, command):
    """Return a pod that runs the launcher's image with a read-only root file system."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "securityContext": {**UNPRIVILEGED, "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    spec = {
        "serviceAccountName": "launcher",
        "restartPolicy": "Never",
        "securityContext": NOT_ROOT,
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    return {"metadata": {"name": name}, "spec": spec}


def train(image, name, script, entry):
    """Return a pod that trains two busybox replicas, which are as restricted as itself."""
    security = {"securityContext": {**NOT_ROOT, "runAsUser": 65532}}
    job = {
        "name": name,
        "image": "docker.io/library/busybox:latest",
        "image_pull_policy": "Never",
        "command": ["sh", "-c", script],
        "roles": {"worker": {"replicas": 2}},
        "pod": {"spec": {**security, "containers": [{"name": CONTAINER, "securityContext": UNPRIVILEGED}]}},
    }
    executor_input = {
        "inputs": {"parameterValues": {"spec": job}},
        "outputs": {"outputFile": OUTPUTS.format(name=name)},
    }
    return pod(image, name, [*entry, ARGUMENT, msgspec.json.encode(executor_input).decode()])


def test_it_holds_what_the_lock_pins_and_nothing_else(cluster, namespace, image):
    code, _, out = run(cluster, namespace, pod(image, "versions", ["python", "-c", VERSIONS]))
    assert code == 0
    lock = (ROOT / "requirements.lock").read_text()
    pins = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", lock))
    installed = {name: version for name, version in json.loads(out).items() if name != "tfsteps"}
    assert installed == {name: pins[name.replace("_", "-")] for name in installed}


def run(cluster, namespace, body):
    """Run a pod to its end; return its exit code, its termination message, and what it printed."""
    name = body["metadata"]["name"]
    cluster.api.create(PODS, namespace, body)
    ended = until(lambda: terminated(cluster, namespace, name))
    return ended["exitCode"], ended.get("message", ""), cluster.kubectl("logs", "-n", namespace, name)


def terminated(cluster, namespace, name):
    statuses = cluster.api.get(PODS, namespace, name)["status"].get("containerStatuses") or [{}]
    return statuses[0].get("state", {}).get("terminated")


def jobs(cluster, namespace, stem):
    """Return name -> uid of the jobs that were made for `stem` and are not being deleted."""
    metadata = [item["metadata"] for item in cluster.api.list(TFJob.resource, namespace)["items"]]
    return {
        item["name"]: item["uid"]
        for item in metadata
        if item["name"].startswith(stem) and "deletionTimestamp" not in item
    }


WHAT_IT_IS = """
import importlib.metadata, json, os, sys
installed = sorted(package.name for package in importlib.metadata.distributions(path=[sys.path[-1]]))
print(json.dumps([os.getuid(), sys.prefix, installed, os.access(sys.prefix, os.W_OK)]))
"""
LAUNCHER = ["python", "-m", "tfsteps.steps.train.launcher"]


@pytest.mark.parametrize(("script", "expected"), [("echo up", (0, "succeeded")), ("exit 3", (10, "failed"))])
def test_a_job_to_its_end(script, expected, image, cluster, namespace):
    code, state = expected
    body = train(image, state, script, ["sh", "-c", AND_SHOW_OUTPUTS, "sh"])
    ended, message, log = run(cluster, namespace, body)
    assert ended == code, log
    outputs = json.loads(re.search(r"^outputs: (.*)$", log, re.MULTILINE)[1])["parameterValues"]
    assert outputs["job"]["state"] == state
    assert {outputs["job"]["name"]: outputs["job"]["uid"]} == jobs(cluster, namespace, state)
    assert message.startswith(f"{outputs['job']['name']} {state} after ")
    assert bool(outputs["failure"]) == (state == "failed")


def test_a_pod_that_is_taken_away_leaves_its_job_to_the_next(image, cluster, namespace):
    body = train(image, "moved", HELD, LAUNCHER)
    cluster.api.create(PODS, namespace, body)
    until(lambda: "[worker-0] up" in cluster.kubectl("logs", "-n", namespace, "moved", "--ignore-errors"))
    before = jobs(cluster, namespace, "moved")
    uid = cluster.api.get(PODS, namespace, "moved")["metadata"]["uid"]
    cluster.api.delete(PODS, namespace, "moved", uid)
    until(lambda: not exists(cluster.api, PODS, namespace, "moved"))
    assert jobs(cluster, namespace, "moved") == before
    release(cluster, namespace, *before)
    code, _, log = run(cluster, namespace, body)
    assert code == 0, log
    assert jobs(cluster, namespace, "moved") == before
    assert "[worker-0] up" in log, "the log is read from its beginning"


def test_it_holds_the_core_and_runs_as_nobody(image, cluster, namespace):
    code, _, log = run(cluster, namespace, pod(image, "what", ["python", "-c", WHAT_IT_IS]))
    assert code == 0, log
    assert json.loads(log) == [
        65532,
        "/opt/tfsteps",
        ["PyYAML", "msgspec", "obstore", "tfsteps", "typing_extensions", "urllib3"],
        False,
    ]
