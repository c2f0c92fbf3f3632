"""A namespace of a real cluster, and launchers that run in it as a ServiceAccount."""

import base64
import json
import os
import subprocess
import sys
import urllib.parse
import uuid
from dataclasses import dataclass

import msgspec

from tests.preflight.conftest import ROOT
from tests.support.waiting import until
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.engines.kfp.executor import ARGUMENT
from tfsteps.kube.resource import PODS, Resource
from tfsteps.systems.kubeflow.tfjob import TFJob

JOBS = TFJob.resource
CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
IMAGE = "docker.io/library/busybox:latest"
REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
RECORDED = [sys.executable, "-m", "tests.preflight.recorded", "tfsteps.steps.train.launcher"]


@dataclass
class Launcher:
    """A launcher that runs as the ServiceAccount.

    Attributes:
        process: Its process.
        record: The file of what it asked.
        output: The file of what it printed.
        outputs: The file of its outputs.
    """

    process: subprocess.Popen
    record: os.PathLike
    output: os.PathLike
    outputs: os.PathLike

    def ends(self):
        """Return its exit code, and what it printed."""
        return self.process.wait(120), self.output.read_text()

    def requests(self):
        """Return (status, verb, group, resource) of all that it asked, who it is and what it may do aside."""
        rows = [line.split("\t") for line in self.record.read_text().splitlines()]
        return [(int(status), *permission) for status, *permission in rows if permission[1] not in REVIEWS]

    def uid(self):
        """Return its job's uid."""
        return json.loads(self.outputs.read_text())["parameterValues"]["job"]["uid"]


class Stage:
    """A namespace, its launcher's ServiceAccount, and all launchers that were started in it."""

    def __init__(self, cluster, namespace, folder, service_account):
        """Let launchers run as the ServiceAccount of that name, which must be there."""
        self.cluster, self.api, self.namespace, self.folder = cluster, cluster.api, namespace, folder
        self.launchers = []
        account = folder / "account"
        account.mkdir()
        config = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        certificate = config["clusters"][0]["cluster"]["certificate-authority-data"]
        (account / "ca.crt").write_bytes(base64.b64decode(certificate))
        (account / "namespace").write_text(namespace)
        (account / "token").write_text(cluster.kubectl("create", "token", service_account, "-n", namespace))
        cluster.api.create(CONFIG_MAPS, namespace, {"metadata": {"name": "settings"}, "data": {"batch": "64"}})

    def close(self):
        """Kill the launchers that still run."""
        for launcher in self.launchers:
            if launcher.process.poll() is None:
                launcher.process.kill()
                launcher.process.wait()

    def workflow(self, name):
        """Make a Workflow that its controller leaves alone."""
        spec = {"suspend": True, "entrypoint": "a", "templates": [{"name": "a", "container": {"image": "none"}}]}
        body = {"apiVersion": WORKFLOWS.api, "kind": WORKFLOWS.kind, "metadata": {"name": name}, "spec": spec}
        return self.api.create(WORKFLOWS, self.namespace, body)

    def pod(self, name, owner=None):
        """Make the pod that a launcher takes for its own. It needs to be there, and not to run."""
        reference = {"apiVersion": WORKFLOWS.api, "kind": WORKFLOWS.kind, "name": name, "controller": True}
        owners = [{**reference, "uid": owner["metadata"]["uid"]}] if owner else []
        spec = {"nodeSelector": {"there-is": "no-such-node"}, "containers": [{"name": "main", "image": IMAGE}]}
        self.api.create(PODS, self.namespace, {"metadata": {"name": name, "ownerReferences": owners}, "spec": spec})

    def launch(self, name, script, system="kubeflow", code="", **fields):
        """Start a launcher in the pod `name`, with packed code; the same name again is the same task."""
        task = uuid.uuid5(uuid.NAMESPACE_DNS, name)
        outputs = self.folder / "pipeline" / "run" / name / str(task) / "outputs.json"
        job = {"name": name, "image": IMAGE, "image_pull_policy": "Never", "command": ["sh", "-c", script]}
        spec = {**job, "roles": {"worker": {"replicas": 2}}, **fields}
        executor_input = msgspec.json.encode(
            {
                "inputs": {"parameterValues": {"spec": spec, "system": system, "code": code}},
                "outputs": {"outputFile": str(outputs)},
            }
        )
        number = len(self.launchers)
        record, output_file = self.folder / f"{number}.requests", self.folder / f"{number}.out"
        server = urllib.parse.urlsplit(self.api.access.server)
        with output_file.open("wb") as file:
            process = subprocess.Popen(
                [*RECORDED, self.folder / "account", record, ARGUMENT, executor_input],
                cwd=ROOT,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "KUBERNETES_SERVICE_HOST": server.hostname,
                    "KUBERNETES_SERVICE_PORT": str(server.port or 443),
                    "POD_NAME": name,
                    "TFSTEPS_HOME": str(self.folder / f"home-{number}"),  # as empty as in a new pod
                },
            )
        self.launchers.append(Launcher(process, record, output_file, outputs))
        return self.launchers[-1]

    def until_said(self, launcher, text):
        """Wait until a launcher has printed `text`."""
        until(lambda: text in launcher.output.read_text() or launcher.process.poll() is not None)
        assert launcher.process.poll() is None, launcher.output.read_text()

    def replicas_are_gone(self):
        """Tell whether no job has pods any more."""
        selector = "training.kubeflow.org/job-name"
        return not self.api.list(PODS, self.namespace, labelSelector=selector)["items"]

    def jobs(self):
        """Return the names of the jobs that are there."""
        return [item["metadata"]["name"] for item in self.api.list(JOBS, self.namespace)["items"]]
