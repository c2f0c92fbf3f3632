"""Manual runs beside scheduled ones on Argo: `submit --replace` removes them alone, and `runs` tells them apart."""

import pytest
import yaml

from tests.unit.cli.command import refused, tfsteps
from tests.unit.cli.jobs_on_cluster import tfjob, write_kubeconfig
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.engines.argo import submit

MANUAL = {"tfsteps.dev/trigger": "manual", "tfsteps.dev/pipeline": "nightly"}
OWNER = {"apiVersion": "v1", "kind": "x", "name": "x", "uid": "x"}
KEPT = {  # what is not certainly a manual run of this pipeline
    "another": {"labels": {**MANUAL, "tfsteps.dev/pipeline": "other"}},
    "scheduled": {"labels": {**MANUAL, "tfsteps.dev/trigger": "scheduled"}},
    "of-argo": {"labels": {**MANUAL, "workflows.argoproj.io/cron-workflow": "nightly"}},
    "of-kubeflow": {"labels": {**MANUAL, "scheduledworkflows.kubeflow.org/scheduledWorkflowName": "nightly"}},
    "of-a-job": {"labels": MANUAL, "ownerReferences": [OWNER]},
    "foreign": {"labels": {}},
}


class Cluster:
    """Workflows and jobs of a namespace; what was asked of them, in order."""

    def __init__(self):
        self.changes = []
        self.stays, self.refused = False, False
        self.workflows = {name: {"name": name, "uid": f"uid-{name}", **meta} for name, meta in KEPT.items()}
        self.workflows |= {name: {"name": name, "uid": f"uid-{name}", "labels": MANUAL} for name in ("once", "twice")}
        labels = {"app.kubernetes.io/managed-by": "tfsteps", "tfsteps.dev/run-id": "uid-once"}
        self.jobs = {"board": {"name": "board", "namespace": "ml", "uid": "uid-board", "labels": labels}}

    def __call__(self, asked):
        plural, name = asked.path.split("/")[-2:]
        by_kind = {"workflows": self.workflows, "jobs": self.jobs}
        if asked.method == "POST":
            return self.created(asked)
        if plural == "ml":
            selector = dict(part.split("=") for part in asked.query["labelSelector"].split(","))
            metas = [meta for meta in by_kind.get(name, {}).values() if selector.items() <= meta["labels"].items()]
            for meta in metas:  # a job stays for one more list
                if "deletionTimestamp" in meta:
                    del self.jobs[meta["name"]]
            return Answer(body={"items": [{"metadata": meta} for meta in metas]})
        meta = by_kind.get(plural, {}).get(name)  # also for what is neither, such as settings
        if meta is None:
            return refusal(404, "NotFound", about=name)
        if asked.method == "DELETE":
            assert asked.body["preconditions"] == {"uid": meta["uid"]}
            self.changes.append(f"delete {name}")
            if plural == "jobs":
                meta["deletionTimestamp"] = "2026-11-26T00:00:00Z"
            elif not self.stays:
                del by_kind[plural][name]
        return Answer(body={"metadata": meta})

    def created(self, asked):
        if self.refused:
            return refusal(422, "Invalid")
        if "dryRun" not in asked.query:
            self.changes.append(f"create {asked.body['metadata']['labels'] == MANUAL}")
        meta = {"name": "made", "namespace": "ml", "uid": "u", "resourceVersion": "1", **asked.body["metadata"]}
        return Answer(201, {**asked.body, "metadata": meta})


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    there = Cluster()
    monkeypatch.setattr(submit, "_POLL_SECONDS", 0.0)
    with serve(there) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        yield there


@pytest.fixture
def workflow(tmp_path):
    spec = {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "busybox:1.37"}}]}
    body = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "nightly-"}}
    file = tmp_path / "nightly.yaml"
    file.write_text(yaml.safe_dump({**body, "spec": spec}))
    return file


@pytest.mark.parametrize("name", [(), ("--name", "once")])
def test_earlier_manual_runs_are_removed_and_nothing_else(cluster, workflow, name):
    code, _, err = tfsteps("submit", workflow, "--replace", *name)
    assert (code, set(cluster.workflows), cluster.jobs) == (0, set(KEPT), {}), err
    assert cluster.changes == ["delete once", "delete twice", "delete board", "create True"]
    assert "removing the manual run once" in err


def test_a_dry_run_says_which_runs_it_would_remove(cluster, workflow):
    code, out, err = tfsteps("submit", workflow, "--replace", "--dry-run")
    assert (code, cluster.changes, "kind: Workflow" in out) == (0, [], True), err
    assert err.splitlines() == ["would remove the manual run once", "would remove the manual run twice"]


def test_nothing_is_removed_for_what_the_cluster_refuses(cluster, workflow):
    cluster.refused = True
    assert (tfsteps("submit", workflow, "--replace")[0], cluster.changes) == (2, [])


def test_nothing_is_submitted_beside_a_run_that_is_not_gone(cluster, workflow, monkeypatch):
    monkeypatch.setattr(submit, "_GONE_SECONDS", 0.0)
    cluster.stays = True
    code, out, err = tfsteps("submit", workflow, "--replace")
    assert (code, out, "create True" in cluster.changes) == (13, "", False)
    assert "nothing was submitted: once, twice in ml is still being deleted" in err


def test_a_schedule_is_no_manual_run(cluster, workflow):
    code, _, err = tfsteps("submit", workflow, "--replace", "--every", "6h")
    assert (code, cluster.changes, "--replace is for a manual run" in err) == (2, [], True)


STARTED = {  # what started each Workflow
    "once": "manual",
    "scheduled": "scheduled",
    "of-argo": "unknown",  # it contradicts itself
    "of-kubeflow": "unknown",
    "of-a-job": "unknown",
    "foreign": "unknown",
    "gone": "unknown",
}


@pytest.mark.parametrize("allowed", [True, False])
def test_runs_says_what_started_each_run(cluster, tmp_path, monkeypatch, allowed):
    def script(asked):
        kind = asked.path.rpartition("/")[2]
        if kind == "tfjobs" and "/kubeflow.org/v1/" in asked.path:
            jobs = [tfjob(name) for name in [*STARTED, "alone"]]
            for job, name in zip(jobs, STARTED, strict=False):
                owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": name, "uid": f"uid-{name}"}
                job["metadata"]["ownerReferences"] = [owner]
            return Answer(body={"items": jobs})
        if kind == "workflows":
            items = [{"metadata": meta} for meta in cluster.workflows.values()]
            return Answer(body={"items": items}) if allowed else refusal(403, "Forbidden")
        return Answer(body={"items": []})

    with serve(script) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        code, out, err = tfsteps("runs", "--on", "kubernetes", "--trigger")
    header, *rows = [line.split() for line in out.splitlines()]
    started = {row[header.index("RUN")]: row[header.index("TRIGGER")] for row in rows if len(row) == len(header)}
    assert (code, started) == (0, {name: trigger if allowed else "unknown" for name, trigger in STARTED.items()}), err
    assert out.split("alone")[1].split()[0] == "-"
    assert ("without the permission to list workflows" in err) != allowed


def test_what_started_local_runs_is_not_asked(cluster):
    assert "--trigger is about runs on a cluster" in refused("runs", "--trigger")
