"""A namespace of a real cluster; its launchers' ServiceAccount has the permissions of manifests/ and no others."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
from dataclasses import dataclass, field

import pytest

from tests.cluster import images, paths
from tests.cluster.build import build
from tests.support.overlays import built
from tests.support.waiting import until
from tests.support.wheel import wheel
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs.identity import new_run_id
from tfsteps.systems.kubeflow.tfjob import TFJob

ROOT = pathlib.Path(__file__).parents[2]
NAMESPACES = Resource("v1", "namespaces", "Namespace")
ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount")
HELD = "echo up; trap 'exit 143' TERM; until [ -e /tmp/released ]; do sleep 0.2; done"
"""What a replica runs that ends when it is released, however long that which comes before may take."""


@dataclass
class Cluster:
    """A real cluster, as its administrator."""

    api: Api = field(default_factory=lambda: Api(access.find()))

    def kubectl(self, *args, stdin=None, whatever=False):
        """Run kubectl and return what it prints; `whatever` = however it ends."""
        done = subprocess.run(self._command(args), input=stdin, capture_output=True, text=True, check=False)
        assert whatever or done.returncode == 0, done.stderr
        return done.stdout

    def kubectl_process(self, *args):
        """Start kubectl and return its process, to read its output line by line."""
        return subprocess.Popen(self._command(args), stdout=subprocess.PIPE, text=True)

    def _command(self, args):
        return [shutil.which("kubectl") or str(build()["kubectl"]), *map(str, args)]


@pytest.fixture(scope="session")
def cluster():
    """The cluster that KUBECONFIG names, else that of `make cluster`, which must run then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", os.environ.get("KUBECONFIG", str(paths.KUBECONFIG)))
        assert pathlib.Path(os.environ["KUBECONFIG"]).exists(), "run `make cluster`, or set KUBECONFIG"
        yield Cluster()


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """The launcher's image, built from this tree's wheel and on the node."""
    if image_name := os.environ.get("TFSTEPS_LAUNCHER_IMAGE"):  # where the cluster is not of this machine
        return image_name
    context = tmp_path_factory.mktemp("wheel")
    parts = [wheel(), ROOT / "images/launcher/requirements.txt"]
    for part in parts:
        shutil.copy(part, context)
    dockerfile = ROOT / "images/launcher/Dockerfile"
    content = hashlib.sha256(b"".join(part.read_bytes() for part in [*parts, dockerfile])).hexdigest()[:12]
    name = f"registry.local/tfsteps/launcher:{content}"
    images.provide_image(name, context, dockerfile)
    return name


@contextlib.contextmanager
def namespace_of(cluster, **labels):
    """Make a namespace for the length of the block."""
    name = f"preflight-{new_run_id()}"
    cluster.api.create(NAMESPACES, "", {"metadata": {"name": name, "labels": labels}})
    try:
        until(lambda: exists(cluster.api, ACCOUNTS, name, "default"))
        yield name
    finally:
        cluster.api.request("DELETE", NAMESPACES.path("", name))


def exists(api, resource, namespace, name):
    """Tell whether an object is there."""
    try:
        api.get(resource, namespace, name)
    except ApiError as error:
        if error.missing:
            return False
        raise
    return True


def release(cluster, namespace, job):
    """Let the replica of a HELD TFJob end that decides."""
    selector = f"{TFJob().selector(job)},training.kubeflow.org/replica-index=0"
    for pod in cluster.api.list(PODS, namespace, labelSelector=selector)["items"]:
        cluster.kubectl("exec", "-n", namespace, pod["metadata"]["name"], "--", "touch", "/tmp/released")


def grant(cluster, namespace, account):
    """Make a ServiceAccount that may do what an overlay gives the launcher of a user's namespace, nothing optional."""
    cluster.api.create(ACCOUNTS, namespace, {"metadata": {"name": account}})
    overlay = built(cluster, "user-namespace", {"default-editor": account, "team": namespace}, optional=False)
    cluster.kubectl("apply", "-f", "-", stdin=overlay)


def executor(account):
    """Return the manifests of what Argo's own installation grants a ServiceAccount that runs its steps."""
    return f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: executor}}
rules:
- {{apiGroups: [argoproj.io], resources: [workflowtaskresults], verbs: [create, patch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: executor}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: executor}}
subjects: [{{kind: ServiceAccount, name: {account}}}]
"""
