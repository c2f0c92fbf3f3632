"""Steps in a namespace as platform teams make them: under pod security `restricted`, with a quota that wants limits."""

import pytest

from tests.argo.conftest import made_environment
from tests.argo.environment import BUSYBOX
from tests.preflight.conftest import namespace_of
from tests.support.claims import claim_of
from tests.support.event_writer import by_shell
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs.identity import RUN_ID

pytestmark = pytest.mark.cluster

QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota")
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
HARD = {"requests.cpu": "4", "limits.cpu": "8", "requests.memory": "8Gi", "limits.memory": "8Gi"}
SECURE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
NARROW = {"spec": {"containers": [{"name": "tensorflow", "securityContext": {**SECURE, "runAsUser": 1000}}]}}
JOB = {
    "name": "job",
    "image": BUSYBOX,
    "image_pull_policy": "Never",
    "command": ["sh", "-c", "echo up"],
    "roles": {"worker": {}},
    "resources": {"cpu": "100m", "memory": "64Mi"},
    "pod": {"spec": {"containers": [{"name": "tensorflow", "securityContext": SECURE}]}},
}


@pytest.fixture(scope="module")
def strict(cluster, image):
    script = f"umask 077; {by_shell('loss', 0.5, 0.25)}"
    volumes, outputs = [{"pvc": "training", "mount": "/claim"}], {"metrics": {"loss": "loss"}}
    measured = {**JOB, "command": ["sh", "-c", script], "volumes": volumes, "outputs": outputs, "pod": NARROW}
    with namespace_of(cluster, **RESTRICTED) as namespace, claim_of(cluster, namespace):
        cluster.api.create(QUOTAS, namespace, {"metadata": {"name": "team"}, "spec": {"hard": HARD}})
        environment = made_environment(cluster, namespace, image)
        refused = environment.one("refused", inputs={"spec": JOB}, settings={"pod_spec_patch": "{}"}, on_exit=False)
        for flow in (refused, environment.one("measured", inputs={"spec": measured})):
            environment.submit(flow)
        yield environment


def test_the_steps_run(strict):
    assert strict.ended("measured") == "Succeeded", strict.why("measured")
    assert len(strict.jobs("measured")) == 1
    pods = strict.cluster.api.list(PODS, strict.namespace, labelSelector=f"{RUN_ID}={strict.flows['measured']['uid']}")
    owners = {pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods["items"]}
    assert "Workflow" in owners, "launcher pods carry the run's id"


def test_a_pod_that_is_refused_is_not_tried_again(strict):
    assert strict.ended("refused") in {"Failed", "Error"}
    assert "forbidden" in strict.why("refused")
    assert [name for name in strict.nodes("refused") if name.startswith("fit(")] == ["fit(0)"]


def test_metrics_come_from_a_claim_that_the_launcher_does_not_mount(strict):
    assert strict.ended("measured") == "Succeeded", strict.why("measured")
    assert strict.decoded("measured", "fit", "metrics") == {"loss": 0.25}, strict.why("measured")
    pods = strict.cluster.api.list(PODS, strict.namespace, labelSelector=f"{RUN_ID}={strict.flows['measured']['uid']}")
    assert [pod for pod in pods["items"] if pod["metadata"]["name"].endswith("-reader")] == []
