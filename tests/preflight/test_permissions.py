"""Launchers need no other permissions than those of manifests/, and use each of them."""

import base64
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse
import uuid
from dataclasses import dataclass

import msgspec
import pytest
import yaml

from tests.preflight.conftest import HELD, ROOT, grant, namespace_of, release
from tests.support.shell import printing
from tests.support.waiting import until
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.engines.kfp.executor import ARGUMENT
from tfsteps.kube.client import Resource
from tfsteps.kube.logs import PODS
from tfsteps.systems.kubeflow.tfjob import TFJob

RECORDED = [sys.executable, "-m", "tests.preflight.recorded", "tfsteps.steps.train.launcher"]

pytestmark = pytest.mark.cluster

JOBS = TFJob.resource
CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota")
ACCOUNT = "launcher"
IMAGE = "docker.io/library/busybox:latest"
FOR_GANGS = {  # tests/gang runs with these permissions
    ("get", "scheduling.x-k8s.io", "podgroups"),
    ("create", "scheduling.x-k8s.io", "podgroups"),
}
FOR_READERS = {("create", "", "pods")}  # tests/argo reads event files with these permissions
FOR_EVICTION = {("create", "batch", "jobs"), ("delete", "batch", "jobs")}  # tests/argo runs with these permissions
FOR_TENSORBOARD = {  # tests/wire/test_tensorboard.py sends these requests
    *itertools.product(("get", "create", "patch", "delete"), ("batch",), ("jobs",)),
    *itertools.product(("get", "create"), ("",), ("services",)),
    *itertools.product(("get", "create"), ("tensorboard.kubeflow.org",), ("tensorboards",)),
}
FOR_USAGE = {("list", "metrics.k8s.io", "pods")}  # tests/wire/test_usage.py sends this request
LONG = "echo up; trap 'exit 0' TERM; sleep 600 & wait"


@dataclass
class Launcher:
    """A launcher that runs as the ServiceAccount.

    Attributes:
        process: Its process.
        record: The file of what it asked.
        said: The file of what it printed.
        outputs: The file of its outputs.
    """

    process: subprocess.Popen
    record: os.PathLike
    said: os.PathLike
    outputs: os.PathLike

    def ends(self):
        """Return its exit code, and what it printed."""
        return self.process.wait(120), self.said.read_text()

    def requests(self):
        """Return (status, verb, group, resource) of all that it asked, its own permissions aside."""
        rows = [line.split("\t") for line in self.record.read_text().splitlines()]
        return [(int(status), *permission) for status, *permission in rows if permission[1] != "authorization.k8s.io"]

    def uid(self):
        """Return its job's uid."""
        return json.loads(self.outputs.read_text())["parameterValues"]["job"]["uid"]


class Stage:
    """A namespace, its launcher's ServiceAccount, and all launchers that were started in it."""

    def __init__(self, cluster, namespace, folder):
        self.cluster, self.api, self.namespace, self.folder = cluster, cluster.api, namespace, folder
        self.launchers = []
        grant(cluster, namespace, ACCOUNT, folder)
        account = folder / "account"
        account.mkdir()
        config = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        certificate = config["clusters"][0]["cluster"]["certificate-authority-data"]
        (account / "ca.crt").write_bytes(base64.b64decode(certificate))
        (account / "namespace").write_text(namespace)
        (account / "token").write_text(cluster.kubectl("create", "token", ACCOUNT, "-n", namespace))
        cluster.api.create(CONFIG_MAPS, namespace, {"metadata": {"name": "settings"}, "data": {"batch": "64"}})

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

    def launch(self, name, script, **fields):
        """Start a launcher in the pod `name`; the same name again is the same task."""
        task = uuid.uuid5(uuid.NAMESPACE_DNS, name)
        outputs = self.folder / "pipeline" / "run" / name / str(task) / "outputs.json"
        job = {"name": name, "image": IMAGE, "image_pull_policy": "Never", "command": ["sh", "-c", script]}
        spec = {**job, "roles": {"worker": {"replicas": 2}}, **fields}
        given = msgspec.json.encode(
            {"inputs": {"parameterValues": {"spec": spec}}, "outputs": {"outputFile": str(outputs)}}
        )
        number = len(self.launchers)
        record, said = self.folder / f"{number}.requests", self.folder / f"{number}.out"
        server = urllib.parse.urlsplit(self.api.access.server)
        with said.open("wb") as file:
            process = subprocess.Popen(
                [*RECORDED, self.folder / "account", record, ARGUMENT, given],
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
        self.launchers.append(Launcher(process, record, said, outputs))
        return self.launchers[-1]

    def until_said(self, launcher, text):
        """Wait until a launcher has printed `text`."""
        until(lambda: text in launcher.said.read_text() or launcher.process.poll() is not None)
        assert launcher.process.poll() is None, launcher.said.read_text()

    def replicas_are_gone(self):
        """Tell whether no job has pods any more."""
        selector = "training.kubeflow.org/job-name"
        return not self.api.list(PODS, self.namespace, labelSelector=selector)["items"]

    def jobs(self):
        """Return the names of the jobs that are there."""
        return [item["metadata"]["name"] for item in self.api.list(JOBS, self.namespace)["items"]]


@pytest.fixture(scope="module")
def stage(cluster, tmp_path_factory):
    with namespace_of(cluster) as namespace:
        stage = Stage(cluster, namespace, tmp_path_factory.mktemp("permissions"))
        yield stage
        for launcher in stage.launchers:
            if launcher.process.poll() is None:
                launcher.process.kill()
                launcher.process.wait()


@pytest.fixture(scope="module")
def life(stage):
    """Everything that a launcher can live through, each as its exit code and what it printed."""
    return {name: scene(stage, name) for name, scene in SCENES.items()}


def success(stage, name):
    stage.pod(name, stage.workflow(name))
    fields = {"env": {"B": {"config_map": "settings", "key": "batch"}}, "service_account": "default"}
    fields |= {"success": "all_workers"}  # else worker 1 may be taken away before it says anything
    queued = {"labels": {"kueue.x-k8s.io/queue-name": "research"}}
    return stage.launch(name, printing("echo batch $B"), **fields, **queued).ends()


def outside_of_workflows(stage, name):
    stage.pod(name)
    return stage.launch(name, printing("echo up")).ends()


def failure(stage, name):
    stage.pod(name, stage.workflow(name))
    return stage.launch(name, "exit 3", on_end="delete").ends()


def stopped(stage, name):
    stage.pod(name, stage.workflow(name))
    launcher = stage.launch(name, LONG)
    stage.until_said(launcher, "] up")
    launcher.process.send_signal(signal.SIGTERM)
    return launcher.ends()


def workflow_ends(stage, name):
    stage.pod(name, stage.workflow(name))
    launcher = stage.launch(name, LONG)
    stage.until_said(launcher, "] up")
    stage.api.patch(WORKFLOWS, stage.namespace, name, {"spec": {"shutdown": "Terminate"}})
    return launcher.ends()


def killed_and_run_again(stage, name):
    stage.pod(name, stage.workflow(name))
    first = stage.launch(name, HELD)
    stage.until_said(first, "[worker-0] up")
    first.process.kill()
    first.process.wait()
    second = stage.launch(name, HELD)
    stage.until_said(second, "[worker-0] up")
    (made,) = [each for each in stage.jobs() if each.startswith(name)]
    release(stage.cluster, stage.namespace, made)
    code, said = second.ends()
    assert {"create"}.isdisjoint(verb for _, verb, *_ in second.requests()), "it adopts, and creates nothing"
    return code, said


def impossible(stage, name):
    stage.pod(name, stage.workflow(name))
    return stage.launch(name, "echo up", volumes=[{"pvc": "data", "mount": "/data"}]).ends()


def quota_is_used_up(stage, name):
    stage.pod(name, stage.workflow(name))
    until(stage.replicas_are_gone)
    hard = {"pods": str(len(stage.api.list(PODS, stage.namespace)["items"]))}
    quota = stage.api.create(QUOTAS, stage.namespace, {"metadata": {"name": "team"}, "spec": {"hard": hard}})
    until(lambda: "hard" in stage.api.get(QUOTAS, stage.namespace, "team").get("status", {}))
    launcher = stage.launch(name, printing("echo up"))
    stage.until_said(launcher, "exceeded quota: team")
    stage.api.delete(QUOTAS, stage.namespace, "team", quota["metadata"]["uid"])
    return launcher.ends()


SCENES = {
    each.__name__.replace("_", "-"): each
    for each in (
        success,
        outside_of_workflows,
        failure,
        stopped,
        workflow_ends,
        killed_and_run_again,
        impossible,
        quota_is_used_up,
    )
}
ENDS = [
    ("success", 0, r"\[worker-1\] batch 64\n"),
    ("outside-of-workflows", 0, r"\[worker-0\] up\n"),
    ("failure", 10, "failed with exit code 3"),
    ("stopped", 12, "cancelled"),
    ("workflow-ends", 12, "cancelled"),
    ("killed-and-run-again", 0, r"(?s)\[worker-0\] up\n.*succeeded"),
    ("impossible", 2, "nothing was created: PersistentVolumeClaim preflight-.*/data is missing"),
    ("quota-is-used-up", 0, r"\[worker-0\] up\n"),
]


@pytest.mark.parametrize(("name", "code", "says"), ENDS, ids=[name for name, *_ in ENDS])
def test_the_permissions_of_the_manifests_suffice(name, code, says, life):
    ended, said = life[name]
    assert ended == code, said
    assert re.search(says, said), said


def test_nothing_was_refused(life, stage):
    asked = list(itertools.chain(*(launcher.requests() for launcher in stage.launchers)))
    assert asked
    assert [each for each in asked if each[0] in (401, 403)] == []


def test_every_granted_permission_is_needed_and_every_needed_one_is_granted(life, stage):
    used = {tuple(permission) for launcher in stage.launchers for _, *permission in launcher.requests()}
    assert used == granted()


def test_what_is_left(life, stage):
    """Jobs that were stopped, or to be deleted, are gone; so are the pods of those that succeeded."""
    left = {name.rpartition("-")[0] for name in stage.jobs()}
    assert left == {"success", "outside-of-workflows", "killed-and-run-again", "quota-is-used-up"}
    until(stage.replicas_are_gone)


def granted():
    """Return every verb, group and resource that the Roles grant."""
    found = set()
    for file in (ROOT / "manifests/base").glob("*-role.yaml"):
        for rule in yaml.safe_load(file.read_text())["rules"]:
            found |= set(itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"]))
    return found - FOR_GANGS - FOR_READERS - FOR_EVICTION - FOR_TENSORBOARD - FOR_USAGE
