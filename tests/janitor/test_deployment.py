"""The janitor as manifests/ deploy it, and a real launcher that is killed in a real Workflow."""

import contextlib
import time

import msgspec
import pytest
import yaml

from tests.janitor.conftest import IMAGE, JOBS, LONG, manifests
from tests.preflight.conftest import ROOT, executor, grant, namespace_of
from tests.preflight.test_workflow import jobs, pods
from tests.support.waiting import until
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.engines.kfp.executor import ARGUMENT
from tfsteps.kube.resource import PODS
from tfsteps.systems.kubernetes.cleanup.retention import LAUNCHER

pytestmark = pytest.mark.cluster

PERIOD_SECONDS = 5
KILL = """
import os, pathlib, signal
for process in pathlib.Path("/proc").glob("[0-9]*"):
    words = (process / "cmdline").read_bytes().split(b"\\0")
    if words[1:3] == [b"-m", b"tfsteps.steps.train.launcher"]:
        os.kill(int(process.name), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def namespace(cluster, image, tmp_path_factory):
    """A namespace where Workflows may launch jobs and the janitor runs."""
    with namespace_of(cluster) as namespace:
        grant(cluster, namespace, "launcher")
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=executor("launcher"))
        permissions, deployment = manifests(cluster.kubectl, namespace)
        unset = yaml.safe_load(deployment)["spec"]["template"]["spec"]["containers"][0]["image"]
        deployment = deployment.replace(unset, image).replace("- 60s", f"- {PERIOD_SECONDS}s")
        cluster.kubectl("apply", "-f", "-", stdin=f"{permissions}---\n{deployment}")
        cluster.kubectl("rollout", "status", "-n", namespace, "deployment/tfsteps-janitor", "--timeout=90s")
        yield namespace


def submit(cluster, namespace, image, name):
    """Make a Workflow with a step that trains and another one beside it, and return its metadata."""
    job = {
        "name": name,
        "image": IMAGE,
        "image_pull_policy": "Never",
        "command": ["sh", "-c", f"echo up; {LONG}"],
        "roles": {"worker": {}},
    }
    outputs = f"/tmp/run/pipeline/run/{name}/11111111-2222-3333-4444-555555555555/outputs.json"
    executor_input = {"inputs": {"parameterValues": {"spec": job}}, "outputs": {"outputFile": outputs}}
    launcher = {
        "image": image,
        "command": ["python", "-m", "tfsteps.steps.train.launcher"],
        "args": [ARGUMENT, msgspec.json.encode(executor_input).decode()],
    }
    both = [{"name": "train", "template": "train"}, {"name": "other", "template": "other"}]
    templates = [
        {"name": "main", "steps": [both]},
        {"name": "train", "container": launcher},
        {"name": "other", "container": {"image": image, "command": ["sleep", "600"]}},
    ]
    spec = {"serviceAccountName": "launcher", "entrypoint": "main", "templates": templates}
    body = {"apiVersion": WORKFLOWS.api, "kind": WORKFLOWS.kind, "metadata": {"name": name}, "spec": spec}
    return cluster.api.create(WORKFLOWS, namespace, body)["metadata"]


def test_a_killed_launchers_job_goes_with_its_workflow(cluster, namespace, image):
    owner = submit(cluster, namespace, image, "killed")
    sibling = submit(cluster, namespace, image, "sibling")
    for item in (owner, sibling):
        until(lambda item=item: jobs(cluster, namespace, item))
    (before,), (beside,) = jobs(cluster, namespace, owner), jobs(cluster, namespace, sibling)
    assert before["annotations"][LAUNCHER] == "killed[0].train"
    pod = next(item for item in pods(cluster, namespace, owner) if "train" in item["metadata"]["name"])["metadata"]
    until(lambda: "] up" in cluster.kubectl("logs", "-n", namespace, pod["name"], "-c", "main", "--ignore-errors"))
    with contextlib.suppress(AssertionError):  # the container ends, and with it what was executed in it
        cluster.kubectl("exec", "-n", namespace, pod["name"], "-c", "main", "--", "python", "-c", KILL)
    until(lambda: cluster.api.get(PODS, namespace, pod["name"])["status"]["phase"] == "Failed")

    passed = janitor_log(cluster, namespace)
    time.sleep(2 * PERIOD_SECONDS)
    assert [job["uid"] for job in jobs(cluster, namespace, owner)] == [before["uid"]]
    assert janitor_log(cluster, namespace) == passed, "the Workflow goes on: nothing is due"

    cluster.api.patch(WORKFLOWS, namespace, "killed", {"spec": {"shutdown": "Terminate"}})
    until(lambda: not jobs(cluster, namespace, owner))
    until(lambda: f"{JOBS.kind} {namespace}/{before['name']} deleted: " in janitor_log(cluster, namespace))
    assert [job["uid"] for job in jobs(cluster, namespace, sibling)] == [beside["uid"]]


def janitor_log(cluster, namespace):
    return cluster.kubectl("logs", "-n", namespace, "deployment/tfsteps-janitor")


def test_it_runs_where_only_restricted_pods_may(cluster):
    built = yaml.safe_load_all(cluster.kubectl("kustomize", ROOT / "manifests/janitor/cluster"))
    (deployment,) = [item for item in built if item["kind"] == "Deployment"]
    with namespace_of(cluster, **{"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        spec = {**deployment["spec"]["template"]["spec"], "serviceAccountName": "default"}
        cluster.api.create(PODS, namespace, {"metadata": {"name": "janitor"}, "spec": spec}, dry_run=True)


@pytest.mark.parametrize("where", ["namespace", "cluster"])
def test_the_manifests_are_accepted(where, cluster, golden):
    built = cluster.kubectl("kustomize", ROOT / "manifests/janitor" / where)
    golden(ROOT / f"tests/golden/manifests/janitor-{where}.yaml", built)
    moved = built.replace("  namespace: t", "  namespace: default # t")  # its own need not be there
    output = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=moved)
    assert output.count("created (server dry run)") == built.count("apiVersion:") == 5
