"""A namespace of its own for these tests, and the program as a user starts it."""

import contextlib
import os
import pathlib
import secrets
import subprocess

import pytest
import yaml

from tests.cluster import images, paths
from tests.preflight.conftest import Cluster, exists, release
from tests.support.waiting import until
from tests.unit.cli.command import COMMAND
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.resource import Resource
from tfsteps.runs.identity import MANAGED_BY
from tfsteps.systems.kubeflow.tfjob import TFJob

NAMESPACES = Resource("v1", "namespaces", "Namespace")
ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount")
EVENTS = Resource("v1", "events", "Event")
IMAGE = os.environ.get("TFSTEPS_BUSYBOX_IMAGE", "docker.io/library/busybox:latest")


class Terminal:
    """Where a user types commands about one namespace."""

    def __init__(self, api, namespace):
        self.api = api
        self.namespace = namespace
        self.place = ("--on", "kubernetes", "--namespace", namespace)

    def job(self, code, more="", roles="{worker: {}}", image=IMAGE):
        """Write job.yaml: a shell script in the roles' replicas."""
        pull = {"image_pull_policy": "Never"} if image == IMAGE else {}
        job = {"name": "quick", "image": image, **pull, "command": ["sh", "-c", code]}
        pathlib.Path("job.yaml").write_text(f"{yaml.safe_dump(job)}roles: {roles}\n{more}\n")
        return "job.yaml"

    def tfsteps(self, *args, **options):
        command = [COMMAND, *args, *self.place]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=90, **options)

    @contextlib.contextmanager
    def started(self, *args):
        """Start `tfsteps` in the background; it is killed if it outlives the block."""
        command = [COMMAND, *args, *self.place]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def jobs(self, run):
        items = self.api.list(TFJob.resource, self.namespace)["items"]
        return [item for item in items if item["metadata"]["labels"]["tfsteps.dev/run-id"] == run]

    def reasons(self, run):
        """Return the reasons of the events of a run's pods."""
        (job,) = self.jobs(run)
        events = self.api.list(EVENTS, self.namespace)["items"]
        return {
            item["reason"] for item in events if item["involvedObject"]["name"] == f"{job['metadata']['name']}-worker-0"
        }

    def release(self, run):
        """Let the job of a run end that runs HELD."""
        (job,) = self.jobs(run)
        release(Cluster(self.api), self.namespace, job["metadata"]["name"])


@pytest.fixture(scope="session")
def namespace():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", os.environ.get("KUBECONFIG", str(paths.KUBECONFIG)))
        file = os.environ["KUBECONFIG"]
        assert pathlib.Path(file).exists(), f"there is no {file}: run `make cluster`, or set KUBECONFIG"
        api = Api(access.find())
        name = f"u-cli-{secrets.token_hex(3)}"
        created = api.create(NAMESPACES, "", {"metadata": {"name": name, "labels": MANAGED_BY}})
        until(lambda: exists(api, ACCOUNTS, name, "default"))
        yield api, name
        api.delete(NAMESPACES, "", name, created["metadata"]["uid"])


@pytest.fixture(scope="session")
def versioned(namespace):
    """Return an image whose tag says that it need not be pulled: a TrainJob takes no pull policy."""
    if image := os.environ.get("TFSTEPS_VERSIONED_BUSYBOX_IMAGE"):
        return image
    images.load_programs("registry.local/busybox:1", {}, ["sh"])
    return "registry.local/busybox:1"


@pytest.fixture
def terminal(namespace, tmp_path, monkeypatch):
    """Type in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Terminal(*namespace)
