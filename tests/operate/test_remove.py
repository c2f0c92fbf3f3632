"""docs/operate/remove.md: its commands remove a whole installation with a job and its TensorBoard."""

import pathlib
import re
import shutil

import pytest
import yaml

from tests.cluster.build import build
from tests.conformance import operators
from tests.preflight.conftest import ACCOUNTS, NAMESPACES, ROOT, exists, namespace_of
from tests.support.claims import claim_of
from tests.support.page_commands import commands, run
from tests.support.waiting import until
from tests.unit.cli.command import tfsteps
from tfsteps.kube.resource import Resource

pytestmark = [pytest.mark.cluster, pytest.mark.disruptive]  # the runtimes and the namespace `tfsteps` are the cluster's

BUSYBOX = "docker.io/library/busybox:latest"
JOB = {
    "name": "left",
    "image": BUSYBOX,
    "image_pull_policy": "Never",
    "command": ["sh", "-c", "sleep 1"],
    "roles": {"chief": {}, "worker": {"command": ["sleep", "600"]}},
    "volumes": [{"pvc": "training", "mount": "/data"}],
    "output_dir": "/data/{run_id}",
    "on_end": "keep",
    "tensorboard": {"image": "registry.local/missing:1"},
}
OVERLAYS = {
    "team": ["../overlays/user-namespace", "../janitor/namespace"],
    "tfsteps": ["../janitor/cluster"],
    "none": ["../trainjob-runtimes", "../argo-templates/cluster"],
}
COMPONENTS = {
    "team": [
        *(f"../systems/{name}" for name in ("jobs", "jobset", "t9k", "tfjob-v1alpha1", "trainjob")),
        *(f"../optional/{name}" for name in ("readers", "tensorboard")),
    ]
}
RUNTIMES = Resource("trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime")
WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: nightly-}
spec: {entrypoint: main, templates: [{name: main, suspend: {}}]}
"""


@pytest.fixture
def kubectl():
    return pathlib.Path(shutil.which("kubectl") or build()["kubectl"]).parent


@pytest.fixture
def team(cluster):
    with namespace_of(cluster) as name, claim_of(cluster, name):
        cluster.api.create(NAMESPACES, "", {"metadata": {"name": "tfsteps"}})
        yield name
        if exists(cluster.api, NAMESPACES, "", "tfsteps"):
            cluster.api.request("DELETE", NAMESPACES.path("", "tfsteps"))
        operators.runtimes()  # other tests need them


def install(cluster, team, folder):
    """Apply everything that manifests/ has, with `team` in the place of the namespaces that overlays name."""
    manifests = folder / "manifests"
    shutil.copytree(ROOT / "manifests", manifests)
    for name, resources in OVERLAYS.items():
        overlay = manifests / name
        overlay.mkdir()
        kustomization = {"resources": resources, "components": COMPONENTS.get(name, [])}
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        text = cluster.kubectl("kustomize", overlay)
        text = re.sub(r"(namespace|name): (team|set-by-the-overlay)$", rf"\1: {team}", text, flags=re.MULTILINE)
        namespace = ["-n", team] if name == "team" else []
        cluster.kubectl("apply", *namespace, "-f", "-", stdin=text)
    template = cluster.kubectl("kustomize", manifests / "argo-templates").replace(
        "namespace: argo", f"namespace: {team}"
    )
    cluster.kubectl("apply", "-f", "-", stdin=template)


def left(output, team):
    """Return the lines of a list that name objects of the installation; other tests have namespaces of their own."""
    named = [line for line in output.splitlines() if "/" in line]
    return [
        line for line in named if line.split()[0] in (team, "tfsteps") or (line[0] == " " and " namespace/" not in line)
    ]


def test_the_commands_of_the_page_remove_it_all(cluster, team, image, kubectl, tmp_path):
    install(cluster, team, tmp_path)
    (tmp_path / "nightly.yaml").write_text(WORKFLOW)
    schedule = ["submit", tmp_path / "nightly.yaml", "--every", "6h", "--scheduler", "cronjob", "--image", image]
    code, _, err = tfsteps(*schedule, "--namespace", team)
    assert code == 0, err
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    for system in ("jobs", "kubeflow"):
        code, out, err = tfsteps("run", tmp_path / "job.yaml", "--system", system, "--namespace", team)
        assert code == 0, out + err

    blocks = [script.replace("--namespace team", f"--namespace {team}") for script in commands("operate/remove.md")]
    *removals, check = blocks
    before = left(run(check, tmp_path, kubectl), team)
    for kind in KINDS:
        assert [line for line in before if f" {kind}/" in f" {line}" or kind in line], (
            f"{kind} was not installed: {before}"
        )
    for script in removals:
        run(script, tmp_path, kubectl)
    until(lambda: left(run(check, tmp_path, kubectl), team) == [])
    assert exists(cluster.api, ACCOUNTS, team, "default"), "what is not of tfsteps stays"
    assert not exists(cluster.api, RUNTIMES, "", "tensorflow-parameter-server")


KINDS = [
    "tfjob.kubeflow.org/left-",
    "job.batch/left-",
    "job.batch/tensorboard-",
    "service/",
    "pod/left-",
    "cronjob.batch/nightly",
    "configmap/nightly",
    "serviceaccount/nightly",
    "rolebinding.rbac.authorization.k8s.io/tfsteps-launcher",
    "role.rbac.authorization.k8s.io/tfsteps-jobs",
    "role.rbac.authorization.k8s.io/tfsteps-artifacts",
    "deployment.apps/tfsteps-janitor",
    "networkpolicy.networking.k8s.io/tfsteps-launcher",
    "networkpolicy.networking.k8s.io/tfsteps-janitor",
    "clusterrole.rbac.authorization.k8s.io/tfsteps-janitor",
    "clusterrolebinding.rbac.authorization.k8s.io/tfsteps-janitor",
    "clustertrainingruntime.trainer.kubeflow.org/tensorflow-",
    "workflowtemplate.argoproj.io/tfsteps",
    "clusterworkflowtemplate.argoproj.io/tfsteps",
]
"""What the installation of this test contains, as `kubectl get` names it."""
