"""Launchers need no other permissions than those of manifests/, and use each of them."""

import contextlib
import itertools
import re
import signal

import pytest
import yaml

from tests.preflight.conftest import HELD, ROOT, grant, namespace_of, release
from tests.preflight.stage import Stage
from tests.support.shell import printing
from tests.support.waiting import until
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.engines.code_input import with_packed_code
from tfsteps.kube.resource import PODS, Resource

pytestmark = pytest.mark.cluster

QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota")
ACCOUNT = "launcher"
FOR_GANGS = {  # tests/gang runs with these permissions
    ("get", "scheduling.x-k8s.io", "podgroups"),
    ("create", "scheduling.x-k8s.io", "podgroups"),
}
FOR_EVICTION = set(itertools.product(("get", "create", "delete"), ("batch",), ("jobs",)))  # tests/argo uses them
FOR_USAGE = {("list", "metrics.k8s.io", "pods")}  # tests/wire/test_usage.py sends this request
LONG = "echo up; trap 'exit 0' TERM; sleep 600 & wait"


@pytest.fixture(scope="module")
def stage(cluster, tmp_path_factory):
    with namespace_of(cluster) as namespace:
        folder = tmp_path_factory.mktemp("permissions")
        grant(cluster, namespace, ACCOUNT)
        with contextlib.closing(Stage(cluster, namespace, folder, ACCOUNT)) as stage:
            yield stage


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
    files = stage.folder / "code"
    files.mkdir()
    (files / "greeting.txt").write_text("up\n")
    code = with_packed_code({"code": str(files)})["code"]
    return stage.launch(name, printing("cat greeting.txt"), code=code).ends()


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
    (started,) = [job for job in stage.jobs() if job.startswith(name)]
    release(stage.cluster, stage.namespace, started)
    code, output = second.ends()
    assert {"create"}.isdisjoint(verb for _, verb, *_ in second.requests()), "it adopts, and creates nothing"
    return code, output


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
    item.__name__.replace("_", "-"): item
    for item in (
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
    ended, output = life[name]
    assert ended == code, output
    assert re.search(says, output), output


def test_nothing_was_refused(life, stage):
    asked = list(itertools.chain(*(launcher.requests() for launcher in stage.launchers)))
    assert asked
    assert [item for item in asked if item[0] in (401, 403)] == []


def test_every_granted_permission_is_needed_and_every_needed_one_is_granted(life, stage):
    used = {tuple(permission) for launcher in stage.launchers for _, *permission in launcher.requests()}
    assert used - FOR_USAGE == granted()  # it is sent if a job runs for long enough, as on a busy machine


def test_what_is_left(life, stage):
    """Jobs that were stopped, or to be deleted, are gone; so are the pods of those that succeeded."""
    left = {name.rpartition("-")[0] for name in stage.jobs()}
    assert left == {"success", "outside-of-workflows", "killed-and-run-again", "quota-is-used-up"}
    until(stage.replicas_are_gone)


def granted():
    """Return every verb, group and resource that the Roles grant."""
    rules = set()
    for file in (ROOT / "manifests/base").glob("*-role.yaml"):
        for rule in yaml.safe_load(file.read_text())["rules"]:
            rules |= set(itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"]))
    return rules - FOR_GANGS - FOR_EVICTION - FOR_USAGE
