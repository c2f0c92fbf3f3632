"""docs/operate/clusters.md: a job runs on the cluster of a kubeconfig in a Secret, by the permissions of the page.

FAR_KUBECONFIG names that cluster. Without it, the other cluster is a second namespace and user of the same one.
"""

import json
import os
import uuid

import pytest
import yaml

from tests.preflight.conftest import Cluster, namespace_of
from tests.unit.cli.command import tfsteps
from tfsteps.janitor import __main__ as janitor
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.systems.kubernetes.cleanup.retention import HOME

pytestmark = pytest.mark.cluster

JOB = {
    "name": "far-away",
    "image": "docker.io/library/busybox:latest",
    "image_pull_policy": "IfNotPresent",
    "command": ["sh", "-c", "echo it runs there"],
    "roles": {"worker": {}},
    "cluster": "far",
}
ACCOUNT = "launcher"


class FarCluster(Cluster):
    """The other cluster, as its administrator."""

    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", kubeconfig)
            super().__init__(Api(access.find()))

    def _command(self, args):
        program, *rest = super()._command(args)
        return [program, "--kubeconfig", self.kubeconfig, *rest]


@pytest.fixture
def far(cluster):
    return FarCluster(os.environ.get("FAR_KUBECONFIG") or os.environ["KUBECONFIG"])


def kubeconfig_of(far, namespace):
    """Return a kubeconfig of an account that has the permissions of `tfsteps role jobs` in a namespace, as the page."""
    far.kubectl("create", "serviceaccount", ACCOUNT, "--namespace", namespace)
    code, role, _ = tfsteps("role", "jobs", "--namespace", namespace, "--service-account", ACCOUNT)
    assert code == 0
    far.kubectl("apply", "-f", "-", stdin=role)
    config = yaml.safe_load(far.kubectl("config", "view", "--minify", "--raw", "--flatten"))
    token = far.kubectl("create", "token", ACCOUNT, "--namespace", namespace).strip()
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    config["contexts"][0]["context"]["namespace"] = namespace
    return yaml.safe_dump(config)


def test_a_job_runs_there_and_its_commands_find_it(cluster, far, tmp_path):
    run = f"far-{uuid.uuid4().hex[:8]}"
    with namespace_of(cluster) as home, namespace_of(far) as there:
        (tmp_path / "far.kubeconfig").write_text(kubeconfig_of(far, there))
        (tmp_path / "settings.yaml").write_text("clusters: {far: {}}")
        secret = f"--from-file=far={tmp_path / 'far.kubeconfig'}"
        cluster.kubectl("create", "secret", "generic", "tfsteps-clusters", "--namespace", home, secret)
        settings = f"--from-file={tmp_path / 'settings.yaml'}"
        cluster.kubectl("create", "configmap", "tfsteps", "--namespace", home, settings)
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
        where = ["--system", "jobs", "--namespace", home, "--run-id", run]
        code, out, err = tfsteps("run", tmp_path / "job.yaml", *where)
        assert code == 0, out + err
        assert "it runs there" in out
        assert "far-away" in far.kubectl("get", "jobs", "--namespace", there)
        assert not cluster.kubectl("get", "jobs", "--namespace", home, "--output", "name")
        os.environ["KUBECONFIG"], before = str(tmp_path / "far.kubeconfig"), os.environ["KUBECONFIG"]
        try:
            context = yaml.safe_load((tmp_path / "far.kubeconfig").read_text())["current-context"]
            code, out, err = tfsteps("show", run, "--on", "kubernetes", "--context", context)
            assert (code, "succeeded" in out) == (0, True), out + err
        finally:
            os.environ["KUBECONFIG"] = before
        uid = cluster.api.namespace_uid(home)
        for namespace_uid, option, left in (("of-another-cluster", [], 1), (uid, ["--dry-run"], 1), (uid, [], 0)):
            lose_workflow(far, there, namespace_uid)
            assert janitor.main(["--clusters", "--once", "--namespace", home, *option]) == 0
            assert len(far.kubectl("get", "jobs", "--namespace", there, "--output", "name").split()) == left


def lose_workflow(far, namespace, namespace_uid):
    """Let the job in a namespace be that of a Workflow which is gone from the namespace of a uid, and end with it."""
    (name,) = far.kubectl("get", "jobs", "--namespace", namespace, "--output", "name").split()
    metadata = yaml.safe_load(far.kubectl("get", name, "--namespace", namespace, "--output", "yaml"))["metadata"]
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "gone", "uid": str(uuid.uuid4())}
    home = {**json.loads(metadata["annotations"][HOME]), "owner": owner, "namespace_uid": namespace_uid}
    marks = [f"{HOME}={json.dumps(home)}", "tfsteps.dev/on-end=delete"]
    far.kubectl("annotate", "--overwrite", name, "--namespace", namespace, *marks)
