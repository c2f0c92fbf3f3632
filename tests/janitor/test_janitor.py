"""One pass of the janitor on a real cluster, with only the permissions of manifests/janitor: what it removes."""

import itertools
import time

import pytest
import yaml

from tests.cluster import images
from tests.conformance import operators
from tests.controllers import install as controllers
from tests.janitor.conftest import IMAGE, JOBS, LONG
from tests.preflight.conftest import ROOT
from tests.support.waiting import until
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.kube.resource import PODS
from tfsteps.runs.events import State
from tfsteps.systems import registry
from tfsteps.systems.jobs.job import IndexedJobs
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.query.status import job_ended

KEPT_SECONDS = 2
VERSIONED = "registry.local/busybox:1"  # a TrainJob takes no pull policy: by its tag this image need not be pulled
pytestmark = pytest.mark.cluster

OTHERS = [name for name in registry.on_kubernetes() if name != "kubeflow"]
KEPT = {
    "kept": "kubeflow",
    **{f"kept-{name}": name for name in ("t9k", "tfjob-v1alpha1", "trainjob")},
}  # by nobody else
GO = {
    **{f"on-{name}": "is being stopped|has ended" for name in OTHERS},
    "stopped": "is being stopped|has ended",
    "as-kfp": "is being stopped|has ended",
    **dict.fromkeys(KEPT, f"keep_for is {KEPT_SECONDS}s"),
}
STAY = ("done", "running", "busy", "cli", "failed", "foreign", "others")
ENDS = {**dict.fromkeys(KEPT, State.SUCCEEDED), "kept": State.FAILED, "failed": State.FAILED, "done": State.SUCCEEDED}


@pytest.fixture(scope="module")
def jobs(stage, cluster):
    """The metadata of jobs without launchers, by their situation."""
    operators.runtimes()
    controllers.up(["t9k", "tfjob-v1alpha1"])
    owners = {name: stage.workflow(name) for name in ("stopped", "as-kfp", "running", "busy")}
    for name, change in {"stopped": {"shutdown": "Stop"}, "as-kfp": {"activeDeadlineSeconds": 0}}.items():
        cluster.api.patch(WORKFLOWS, stage.namespace, name, {"spec": change})
    launcher_pod(stage, owners["busy"], "busy.train(1)")
    cluster.api.patch(WORKFLOWS, stage.namespace, "busy", {"spec": {"shutdown": "Terminate"}})
    created = {
        "stopped": stage.job("stopped", owner=owners["stopped"], node="stopped.train"),
        "as-kfp": stage.job("as-kfp", owner=owners["as-kfp"], node="as-kfp.train"),
        "done": stage.job("done", "exit 0", owner=owners["stopped"], node="stopped.done"),
        "running": stage.job("running", owner=owners["running"], node="running.train"),
        "busy": stage.job("busy", owner=owners["busy"], node="busy.train"),
        "cli": stage.job("cli"),
        "failed": stage.job("failed", "exit 3", owner=owners["stopped"], node="stopped.failed", restart="never"),
        "foreign": foreign(stage, "foreign", ownerReferences=[owners["stopped"]]),
        "others": foreign(stage, "others", labels={"app.kubernetes.io/managed-by": "helm"}),
    }
    kept = {"keep_for": f"{KEPT_SECONDS}s", "on_end": "keep", "restart": "never", "image": VERSIONED}
    scripts = {name: "exit 3" if ENDS[name] is State.FAILED else "exit 0" for name in KEPT}
    images.load_programs(VERSIONED, {}, ["sh"])
    created |= {name: stage.job(name, scripts[name], system=system, **kept) for name, system in KEPT.items()}
    of_others = {"owner": owners["stopped"], "node": "stopped.other"}
    created |= {f"on-{name}": stage.job(f"on-{name}", system=name, **of_others) for name in OTHERS}
    for name, state in ENDS.items():
        until(lambda name=name, state=state: verdict(stage, created[name]) is state)
    for name in created.keys() - ENDS.keys() - {f"on-{name}" for name in OTHERS}:
        until(lambda name=name: [pod for pod in pods(stage, created[name]) if pod["status"]["phase"] == "Running"])
    until(lambda: all(time.time() > job_ended(item(stage, created[name])) + KEPT_SECONDS + 1 for name in KEPT))
    return created


def launcher_pod(stage, owner, node):
    """Make a pod of a Workflow's step. It needs to be there, and not to run."""
    meta = {
        "name": owner["name"],
        "ownerReferences": [owner],
        "labels": {"workflows.argoproj.io/workflow": owner["name"]},
        "annotations": {"workflows.argoproj.io/node-name": node},
    }
    spec = {"nodeSelector": {"there-is": "no-such-node"}, "containers": [{"name": "main", "image": IMAGE}]}
    stage.cluster.api.create(PODS, stage.namespace, {"metadata": meta, "spec": spec})


def foreign(stage, name, **meta):
    """Create a TFJob that is not ours, and return its metadata."""
    container = {"name": "tensorflow", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", LONG]}
    worker = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    body = {
        "apiVersion": JOBS.api,
        "kind": JOBS.kind,
        "metadata": {"name": name, **meta},
        "spec": {"tfReplicaSpecs": {"Worker": worker}},
    }
    return stage.cluster.api.create(JOBS, stage.namespace, body)["metadata"]


def item(stage, job):
    return stage.cluster.api.get(job.get("resource", JOBS), stage.namespace, job["name"])


def verdict(stage, job):
    kind = next(kind for kind in registry.kinds() if kind.resource == job.get("resource", JOBS))
    return kind.verdict(item(stage, job)).state


def pods(stage, job):
    """Return the pods of a job that are not being deleted."""
    listed = stage.cluster.api.list(PODS, stage.namespace, labelSelector=TFJob().selector(job["name"]))["items"]
    return [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]


@pytest.fixture(scope="module")
def passes(stage, jobs):
    """Return what three passes said, the first of which was to say it only, and what was there before each."""

    def once(*more):
        before = {name for name, job in jobs.items() if stage.has(job)}
        uids = {name: sorted(pod["metadata"]["uid"] for pod in pods(stage, jobs[name])) for name in STAY}
        return before, uids, *stage.sweep("--once", *more)

    return [once("--dry-run"), once(), once(), once()]


def test_a_dry_run_deletes_nothing(passes, jobs):
    (before, _, code, output), (after, *_), *_ = passes
    assert code == 0, output
    assert before == after == jobs.keys()
    assert output.count(" would be deleted: ") == len(GO) + 1, output


@pytest.mark.shows("keep_for", "t9k tfjob-v1alpha1 trainjob")
def test_what_is_due_goes_in_one_pass(passes, stage, jobs):
    _, (_, _, code, output), (after, *_), _ = passes
    assert code == 0, output
    assert after == set(STAY)
    lines = {name: line for line in output.splitlines() for name in GO if f"/{jobs[name]['name']} deleted: " in line}
    assert lines.keys() == GO.keys()
    for name, why in GO.items():
        assert any(entry in lines[name] for entry in why.split("|")), lines[name]
        until(lambda name=name: not pods(stage, jobs[name]))


def test_the_pods_of_a_job_that_succeeded_go(passes, stage, jobs):
    _, (_, uids, _, output), (_, after, *_), _ = passes
    assert len(uids["done"]) == 1
    assert after["done"] == []
    assert "on_end is delete_pods" in output
    assert stage.has(jobs["done"])


def test_all_others_are_untouched(passes):
    _, (_, before, *_), _, (there, after, *_) = passes
    untouched = set(STAY) - {"done"}
    assert there == set(STAY)
    assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}
    assert all(before[name] for name in untouched)


def test_then_nothing_is_due(passes, jobs):
    *_, (_, _, code, output), (*_, again) = passes
    ours = len(jobs) - len(GO) - 2
    assert (code, output) == (0, f"{ours} jobs looked at, 0 deletions due.\n")
    assert again == output


def test_parameter_servers_of_plain_jobs_end_with_a_chief_that_has_succeeded(stage):
    roles = {"chief": {"command": ["true"], "args": []}, "worker": {}, "ps": {}}
    owner = stage.workflow("left")
    job = stage.job("left", system="jobs", owner=owner, node="left.train", roles=roles)
    stage.cluster.api.patch(WORKFLOWS, stage.namespace, "left", {"spec": {"shutdown": "Stop"}})
    selector = f"tfsteps.dev/job={job['name']}"

    def phases():
        pods = stage.cluster.api.list(PODS, stage.namespace, labelSelector=selector)["items"]
        return sorted(pod["status"]["phase"] for pod in pods if "deletionTimestamp" not in pod["metadata"])

    def succeeded():
        listed = stage.cluster.api.list(job["resource"], stage.namespace)["items"]
        jobs = {item["metadata"]["name"]: item for item in IndexedJobs().group_objects(listed)}
        return IndexedJobs().verdict(jobs[job["name"]]).state is State.SUCCEEDED

    until(lambda: phases() == ["Running", "Running", "Succeeded"] and succeeded())
    until(lambda: stage.sweep("--once")[0] == 0 and not phases())
    time.sleep(3)
    assert phases() == [], "they came back"
    assert stage.has(job)


def test_every_granted_permission_is_needed_and_every_needed_one_is_granted(passes, stage):
    asked = stage.requests()
    assert [entry for entry in asked if entry[0] in (401, 403)] == []
    rules = yaml.safe_load((ROOT / "manifests/janitor/base/janitor-role.yaml").read_text())["rules"]
    granted = {
        entry for rule in rules for entry in itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"])
    }
    assert {tuple(permission) for _, *permission in asked} == granted


def test_without_permission_for_other_namespaces(passes, stage):
    code, output = stage.sweep("--once", "-A")
    assert code == 13
    assert output.startswith("tfjobs cannot be listed: ")
    assert "forbidden" in output
