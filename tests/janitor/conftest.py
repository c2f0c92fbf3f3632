"""A namespace with a janitor's ServiceAccount that has the permissions of manifests/janitor and no others."""

import base64
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import urllib.parse
from dataclasses import dataclass

import pytest

from tests.preflight.conftest import ROOT, cluster, image, namespace_of  # noqa: F401
from tfsteps import spec
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.kube.errors import ApiError
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.cleanup.retention import LAUNCHER
from tfsteps.systems.kubernetes.dependents import complete
from tfsteps.systems.kubernetes.job_kind import RenderedJob, create
from tfsteps.systems.kubernetes.system import KubernetesSystem

JOBS = TFJob.resource
IMAGE = "docker.io/library/busybox:latest"
LONG = "trap 'exit 0' TERM; sleep 600 & wait"
ACCOUNT = "tfsteps-janitor"


@dataclass
class Stage:
    """A namespace with jobs whose launchers are gone, and how to send a janitor there.

    Attributes:
        cluster: The cluster.
        namespace: Its name.
        folder: For files.
    """

    cluster: object
    namespace: str
    folder: pathlib.Path

    def workflow(self, name):
        """Make a Workflow that its controller leaves alone, and return the reference to it."""
        spec_ = {"suspend": True, "entrypoint": "a", "templates": [{"name": "a", "suspend": {}}]}
        body = {"apiVersion": WORKFLOWS.api, "kind": WORKFLOWS.kind, "metadata": {"name": name}, "spec": spec_}
        uid = self.cluster.api.create(WORKFLOWS, self.namespace, body)["metadata"]["uid"]
        return {"apiVersion": WORKFLOWS.api, "kind": WORKFLOWS.kind, "name": name, "uid": uid}

    def job(self, name, script=LONG, *, system="kubeflow", owner=None, node="", **fields):
        """Create what a launcher creates, its parts too, and return the job's metadata and resource."""
        described = {
            "name": name,
            "image": IMAGE,
            "image_pull_policy": "Never",
            "command": ["sh", "-c", script],
            "roles": {"worker": {}},
            **fields,
        }
        there = KubernetesSystem(registry.kinds_of(system)[0], namespace=self.namespace)
        job, who = spec.from_plain(described, "test", registry.options()), Identity(run="janitor", task=name)
        body, *parts = there.plan(job, who, there.output_paths(job, who, self.folder))
        body["spec"].get("runPolicy", {}).pop("ttlSecondsAfterFinished", None)  # the operator would be faster than us
        if owner:
            body["metadata"]["ownerReferences"] = [owner]
            body["metadata"]["annotations"][LAUNCHER] = node
        resource = registry.kinds_of(system)[0].resource
        manifest = create(self.cluster.api, registry.kinds_of(system)[0], job, RenderedJob(body))
        if parts:
            complete(self.cluster.api, resource, manifest, RenderedJob(body, parts, {"spec": {"suspend": False}}))
        return {**manifest["metadata"], "resource": resource}

    def has(self, job):
        """Tell whether a job is still there, and is not being deleted."""
        try:
            metadata = self.cluster.api.get(job.get("resource", JOBS), self.namespace, job["name"])["metadata"]
        except ApiError as error:
            if not error.missing:
                raise
            return False
        return metadata["uid"] == job["uid"] and "deletionTimestamp" not in metadata

    def sweep(self, *arguments):
        """Run the janitor as its ServiceAccount; return its exit code and what it said."""
        server = urllib.parse.urlsplit(self.cluster.api.access.server)
        env = {"KUBERNETES_SERVICE_HOST": server.hostname, "KUBERNETES_SERVICE_PORT": str(server.port or 443)}
        program = [sys.executable, "-m", "tests.preflight.recorded", "tfsteps.janitor.__main__"]
        command = [*program, self.account_folder, self.record, *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=60
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def account_folder(self):
        """The folder of the ServiceAccount's files."""
        return self.folder / "account"

    @property
    def record(self):
        """The file of what all janitors asked."""
        return self.folder / "requests"

    def requests(self):
        """Return (status, verb, group, resource) of all that was asked."""
        rows = [line.split("\t") for line in self.record.read_text().splitlines()]
        return [(int(status), *permission) for status, *permission in rows]


def manifests(kubectl, namespace, overlay="namespace"):
    """Return what manifests/janitor has for a namespace beside the Deployment, and the Deployment."""
    built = kubectl("kustomize", ROOT / "manifests/janitor" / overlay)
    objects = built.replace("namespace: team", f"namespace: {namespace}").split("---\n")
    (deployment,) = [text for text in objects if "\nkind: Deployment\n" in text]
    objects.remove(deployment)
    return "---\n".join(objects), deployment


@contextlib.contextmanager
def stage_of(cluster, folder, overlay="namespace"):  # noqa: F811
    """Yield a stage whose janitor has the permissions of a folder of manifests/janitor, or of one in a copy of it."""
    with namespace_of(cluster) as namespace:
        stage = Stage(cluster, namespace, folder)
        cluster.kubectl("apply", "-f", "-", stdin=manifests(cluster.kubectl, namespace, overlay)[0])
        stage.account_folder.mkdir()
        config = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        certificate = config["clusters"][0]["cluster"]["certificate-authority-data"]
        (stage.account_folder / "ca.crt").write_bytes(base64.b64decode(certificate))
        (stage.account_folder / "namespace").write_text(namespace)
        (stage.account_folder / "token").write_text(cluster.kubectl("create", "token", ACCOUNT, "-n", namespace))
        yield stage


@pytest.fixture(scope="session")
def stage(cluster, tmp_path_factory):  # noqa: F811
    """The stage that all tests share."""
    with stage_of(cluster, tmp_path_factory.mktemp("janitor")) as stage:
        yield stage
