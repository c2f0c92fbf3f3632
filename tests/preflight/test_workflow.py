"""The launcher as a step of a real Workflow, with Argo's controller and executor around it.

What it does when the Workflow is stopped, or its pod evicted, is in tests/argo.
"""

import uuid

import msgspec
import pytest

from tests.preflight.conftest import executor, grant, namespace_of
from tests.support.waiting import until
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.engines.kfp.executor import ARGUMENT
from tfsteps.kube.resource import PODS
from tfsteps.systems.kubeflow.tfjob import TFJob

pytestmark = pytest.mark.cluster

ACCOUNT = "launcher"
WELL = f"well-{'long' * 12}"  # its pod has a name longer than a host's may be


@pytest.fixture(scope="module")
def namespace(cluster, tmp_path_factory):
    with namespace_of(cluster) as namespace:
        grant(cluster, namespace, ACCOUNT)
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=executor(ACCOUNT))
        yield namespace


def submit(cluster, namespace, image, name, script):
    """Make a Workflow of one step, which trains a busybox replica."""
    job = {
        "name": name[:20],
        "image": "docker.io/library/busybox:latest",
        "image_pull_policy": "Never",
        "command": ["sh", "-c", script],
        "roles": {"worker": {}},
    }
    outputs = f"/tmp/run/pipeline/run/{name}/{uuid.uuid4()}/outputs.json"
    executor_input = {"inputs": {"parameterValues": {"spec": job}}, "outputs": {"outputFile": outputs}}
    container = {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "tfsteps.steps.train.launcher"],
        "args": [ARGUMENT, msgspec.json.encode(executor_input).decode()],
    }
    templates = [
        {"name": "main", "steps": [[{"name": "train", "template": "train"}]]},
        {"name": "train", "container": container, "retryStrategy": {"limit": 2, "retryPolicy": "Always"}},
    ]
    spec = {"serviceAccountName": ACCOUNT, "entrypoint": "main", "templates": templates}
    body = {"apiVersion": WORKFLOWS.api, "kind": WORKFLOWS.kind, "metadata": {"name": name}, "spec": spec}
    return cluster.api.create(WORKFLOWS, namespace, body)["metadata"]


def jobs(cluster, namespace, owner):
    """Return the jobs that a Workflow owns."""
    metadata = [item["metadata"] for item in cluster.api.list(TFJob.resource, namespace)["items"]]
    return [entry for entry in metadata if owner["uid"] in [reference["uid"] for reference in entry["ownerReferences"]]]


def pods(cluster, namespace, owner):
    """Return the pods of a Workflow's step."""
    return cluster.api.list(PODS, namespace, labelSelector=f"workflows.argoproj.io/workflow={owner['name']}")["items"]


def ended(cluster, namespace, owner):
    """Return the step's exit code and termination message once its pod has ended."""

    def terminated():
        statuses = [
            item for pod in pods(cluster, namespace, owner) for item in pod["status"].get("containerStatuses") or []
        ]
        return next((status["state"].get("terminated") for status in statuses if status["name"] == "main"), None)

    status = until(terminated)
    return status["exitCode"], status.get("message", "")


def test_a_step_ends_as_its_job_does(cluster, namespace, image):
    owner = submit(cluster, namespace, image, WELL, "echo up")
    code, message = ended(cluster, namespace, owner)
    assert (code, " succeeded after " in message) == (0, True), message
    (job,) = jobs(cluster, namespace, owner)
    assert message.startswith(job["name"])
    until(lambda: cluster.api.get(WORKFLOWS, namespace, WELL)["status"]["phase"] == "Succeeded")
