"""A pass over jobs, against a server that keeps what it was asked."""

import contextlib
import datetime as dt
import itertools
import json
import re

import pytest

from tests.unit.systems.kubernetes.objects import condition
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.janitor.rules import DefaultRetention, Reason
from tfsteps.janitor.sweep import Sweep
from tfsteps.kube import client as apis
from tfsteps.kube.client import Api
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.cleanup.retention import KEPT_FOR_TRY, KEPT_UNTIL, LAUNCHER

NODE = "wf.train"
OURS = "app.kubernetes.io/managed-by=tfsteps,tfsteps.dev/run-id,tfsteps.dev/task,tfsteps.dev/attempt"
COLLECTION = re.compile(r".*/(\w+)")
LABELS = {"tfsteps.dev/run-id": "r", "tfsteps.dev/attempt": "0", "app.kubernetes.io/managed-by": "tfsteps"}
OWNER = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}


def job(name, state="Running", owner=OWNER, **meta):
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "creationTimestamp": dt.datetime.now(dt.UTC).isoformat(),
            "labels": {**LABELS, "tfsteps.dev/task": name},
            "annotations": {LAUNCHER: NODE},
            "ownerReferences": [owner] if owner else [],
            **meta,
        },
        "spec": {"tfReplicaSpecs": {}},
        "status": {"conditions": [condition(state)]},
    }


def replica(task, uid, *, role="worker", **meta):
    kind = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": "0"}
    labels = {**LABELS, "tfsteps.dev/task": task, **kind}
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": task, "uid": f"uid-{task}", "controller": True}
    labels["training.kubeflow.org/job-name"] = task
    metadata = {"name": f"{task}-{uid}", "namespace": "ml", "uid": uid, "labels": labels, "ownerReferences": [owner]}
    return {"metadata": {**metadata, **meta}}


def step(node, uid="w"):
    noted = {"workflows.argoproj.io/node-name": node}
    owners = [{**OWNER, "uid": uid}]
    return {"metadata": {"name": "p", "uid": "p", "namespace": "ml", "annotations": noted, "ownerReferences": owners}}


def workflow(**spec):
    return Answer(body={"metadata": {"name": "wf", "uid": "w"}, "spec": spec, "status": {"phase": "Running"}})


ENDED = Answer(body={"metadata": {"name": "wf", "uid": "w"}, "spec": {}, "status": {"phase": "Failed"}})


@contextlib.contextmanager
def cluster(*, jobs=(), pods=(), steps=(), workflow=ENDED, refused=None):
    """Serve a cluster; `refused` says for `delete`, `tfjobs` and `pods` what is answered. It pages as the real one."""
    refused = refused or {}

    def answer(asked):
        if asked.method == "DELETE":
            return refused.get("delete") or Answer(body={"status": "Success"})
        if asked.path.endswith("/workflows/wf"):
            return workflow
        if "limit" not in asked.query:  # a deletion that found nothing is confirmed
            return refusal(404, "NotFound")
        kind = COLLECTION.fullmatch(asked.path)[1]
        if kind != "pods" and not asked.path.startswith("/apis/kubeflow.org/v1/"):
            return refusal(404)
        if kind in refused:
            return refused[kind]
        name = asked.query.get("fieldSelector", "").removeprefix("metadata.name=")
        listed = [item for item in jobs if name in ("", item["metadata"]["name"])]
        items = listed if kind == "tfjobs" else steps if "fieldSelector" in asked.query else pods
        begin, size = int(asked.query.get("continue", 0)), int(asked.query["limit"])
        more = {"continue": str(begin + size)} if begin + size < len(items) else {}
        return Answer(body={"metadata": more, "items": list(items[begin : begin + size])})

    with serve(answer) as server:
        yield server


def swept(server, namespace="ml", **options):
    """Make a pass; return what was said, and the count."""
    lines = []
    sweep = Sweep(Api(server.access(), patience=0), [TFJob()], namespace, lines.append, **options)
    return lines, sweep.run()


def deleted(server):
    return [(item.path.rpartition("/")[2], item.body["preconditions"]["uid"]) for item in server.asked if item.body]


def test_a_job_that_nobody_comes_for():
    with cluster(jobs=[job("a")]) as server:
        lines, count = swept(server)
    assert deleted(server) == [("a", "uid-a")]
    assert lines == [
        "TFJob ml/a deleted: it is running, and its Workflow wf has ended (Failed) and wf.train has no unfinished pod"
    ]
    assert str(count) == "1 jobs looked at, 1 deletions due"


@pytest.mark.parametrize(
    ("note", "gone"),
    [(json.dumps(OWNER), ["a"]), (None, []), ("true", []), ("{}", []), ('{"kind": "Workflow"}', [])],
)
@pytest.mark.parametrize("state", [ENDED, workflow()], ids=["ended", "runs"])
def test_a_job_that_is_kept_for_another_try_which_cannot_come(state, note, gone):
    keeper = {"apiVersion": "batch/v1", "kind": "Job", "name": "a-kept", "uid": "k"}
    until = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=9)
    kept = {LAUNCHER: NODE, KEPT_UNTIL: until.isoformat(), **({KEPT_FOR_TRY: note} if note else {})}
    with cluster(jobs=[job("a", owner=keeper, annotations=kept)], workflow=state) as server:
        swept(server)
    assert [name for name, _ in deleted(server)] == (gone if state is ENDED else [])


def test_the_server_selects():
    with cluster(jobs=[job("a", "Succeeded")], pods=[replica("a", "p")]) as server:
        swept(server)
    steps = "status.phase!=Succeeded,status.phase!=Failed"
    lists = [(COLLECTION.fullmatch(item.path)[1], item.query) for item in server.asked if "limit" in item.query]
    assert [(kind, query["labelSelector"], query.get("fieldSelector")) for kind, query in lists] == [
        ("tfjobs", OURS, None),
        ("pods", OURS, None),
        ("pods", "workflows.argoproj.io/workflow", steps),
        ("tfjobs", OURS, "metadata.name=a"),
        ("pods", f"{OURS},training.kubeflow.org/job-name=a", None),
        ("pods", "workflows.argoproj.io/workflow=wf", steps),
    ]


@pytest.mark.parametrize("steps", [[step(NODE)], [step(f"{NODE}(0)")], [step("wf.other"), step(f"{NODE}(12)")]])
def test_a_job_whose_step_has_a_pod_is_its_launchers(steps):
    with cluster(jobs=[job("a")], steps=steps) as server:
        assert swept(server)[0] == []
    assert not [item for item in server.asked if "workflows" in item.path], "there is nothing to ask"


@pytest.mark.parametrize("steps", [[step("wf.other")], [step(NODE, uid="x")], [step(f"{NODE}-2")]])
def test_the_pod_of_another_step_or_workflow_is_not_its_launchers(steps):
    with cluster(jobs=[job("a")], steps=steps) as server:
        swept(server)
    assert deleted(server) == [("a", "uid-a")]


def test_a_workflow_that_goes_on_keeps_its_job():
    with cluster(jobs=[job("a")], workflow=workflow()) as server:
        assert swept(server)[0] == []
    assert deleted(server) == []


def test_a_workflow_is_asked_for_once_and_again_before_each_deletion():
    with cluster(jobs=[job(name) for name in "abc"], workflow=workflow(shutdown="Stop")) as server:
        swept(server)
    assert [name for name, _ in deleted(server)] == ["a", "b", "c"]
    assert len([item for item in server.asked if item.path.endswith("/wf")]) == 1 + 3
    with cluster(jobs=[job(name) for name in "abc"], workflow=workflow()) as server:
        swept(server)
    assert len([item for item in server.asked if item.path.endswith("/wf")]) == 1


def test_a_workflow_that_is_gone():
    with cluster(jobs=[job("a")], workflow=refusal(404, "NotFound")) as server:
        lines, _ = swept(server)
    assert "its Workflow wf is gone" in lines[0]


def test_a_job_of_no_workflow_is_left_alone():
    with cluster(jobs=[job("a", owner=None)]) as server:
        assert swept(server)[0] == []
    assert len(server.asked) == 1


def test_pods_that_a_launcher_would_have_deleted():
    pods = [
        replica("a", "p1"),
        replica("a", "p2", deletionTimestamp="t"),
        replica("b", "p3"),
        replica("a", "p4", role="x"),
    ]
    with cluster(jobs=[job("a", "Succeeded")], pods=pods) as server:
        lines, count = swept(server)
    assert deleted(server) == [("a-p1", "p1")]
    assert lines[0].startswith("Pod ml/a-p1 deleted: TFJob ml/a: it has succeeded, on_end is delete_pods, and its Work")
    assert count.due == 1


def test_a_dry_run_only_prints_what_would_be_deleted():
    with cluster(jobs=[job("a")]) as server:
        lines, count = swept(server, dry_run=True)
    assert deleted(server) == []
    assert lines[0].startswith("TFJob ml/a would be deleted: ")
    assert count.due == 1


def test_lists_come_in_pages(monkeypatch):
    monkeypatch.setattr(apis, "_PAGE", 2)
    names = [f"j{i}" for i in range(5)]
    with cluster(jobs=[job(name) for name in names], steps=[step("wf.x"), step("wf.y"), step("wf.z")]) as server:
        _, count = swept(server)
    assert count.jobs == 5
    assert [name for name, _ in deleted(server)] == names
    paged = [item for item in server.asked if "limit" in item.query and "=" not in item.query["labelSelector"][-5:]]
    assert len([item for item in paged if "metadata.name" not in item.query.get("fieldSelector", "")]) == 3 + 2


def test_everywhere():
    with cluster(jobs=[job("a")]) as server:
        swept(server, namespace="")
    paths = [item.path for item in server.asked]
    assert "/apis/kubeflow.org/v1/tfjobs" in paths
    assert "/api/v1/pods" in paths
    assert paths[-1] == "/apis/kubeflow.org/v1/namespaces/ml/tfjobs/a"


def test_a_kind_that_the_cluster_does_not_know():
    with cluster(refused={"tfjobs": refusal(404)}) as server:
        lines, count = swept(server)
    assert (lines, count.served, count.failures) == ([], 0, 0)


FAILURES = {
    "may not list": ({"tfjobs": refusal(403, "Forbidden", "you may not")}, "tfjobs cannot be listed: you may not"),
    "may not list pods": ({"pods": refusal(403, "Forbidden", "you may not")}, "TFJob ml/a: you may not"),
    "may not look at the Workflow": ({"workflow": refusal(403, "Forbidden", "not you")}, "TFJob ml/a: not you"),
    "may not delete": ({"delete": refusal(403, "Forbidden", "not yours")}, "TFJob ml/a: not yours"),
}


@pytest.mark.parametrize(("refused", "says"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_reported_and_the_pass_continues(refused, says):
    with cluster(jobs=[job("a"), job("b")], workflow=refused.get("workflow", ENDED), refused=refused) as server:
        lines, count = swept(server)
    assert says in lines
    assert count.failures == (1 if "tfjobs" in refused else 2)
    assert count.due == (2 if "delete" in refused else 0)


NONSENSE = [{"creationTimestamp": "yesterday", "annotations": {"tfsteps.dev/deadline": "1"}}, {"annotations": "none"}]


@pytest.mark.parametrize("meta", NONSENSE)
def test_nonsense_in_one_job_does_not_keep_it_from_the_next(meta):
    with cluster(jobs=[job("a", **meta), job("b")]) as server:
        lines, count = swept(server)
    assert count.failures == 1
    assert lines[0].startswith("TFJob ml/a is not understood: ")
    assert deleted(server) == [("b", "uid-b")]


@pytest.mark.parametrize("answer", [refusal(404, "NotFound"), refusal(409, "Conflict", "Precondition failed: UID")])
def test_a_job_that_went_meanwhile_is_no_failure(answer):
    with cluster(jobs=[job("a")], refused={"delete": answer}) as server:
        assert swept(server)[1].failures == 0


def at(server, seconds):
    """Return a time by the server's clock."""
    return (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=server.ahead + seconds)).isoformat()


def ended(server, seconds, **meta):
    """Return a job that succeeded some seconds ago by the server's clock, and was created then."""
    item = job("a", owner=None, creationTimestamp=at(server, -seconds), **meta)
    item["status"]["conditions"] = [{**condition("Succeeded"), "lastTransitionTime": at(server, -seconds)}]
    return item


DAY = 86400
HOUR = DefaultRetention(succeeded=3600, failed=3600)


@pytest.mark.parametrize("ahead", [-DAY, 0, DAY], ids=["behind", "equal", "ahead"])
@pytest.mark.parametrize(("age", "due"), [(3500, []), (3700, [("a", "uid-a")])])
def test_the_age_of_a_job_is_that_by_the_servers_clock(ahead, age, due):
    jobs = []
    with cluster(jobs=jobs) as server:
        server.ahead = ahead
        jobs.append(ended(server, age))
        swept(server, default=HOUR)
    assert deleted(server) == due


@pytest.mark.parametrize("noted", [{"keep-for": "60"}, {"deadline": "60"}, {"kept-until": "2026-01-01T00:00:00Z"}])
@pytest.mark.parametrize("ahead", [-DAY, DAY], ids=["behind", "ahead"])
def test_so_are_the_times_in_its_annotations(ahead, noted):
    jobs, gone = [], []
    for age in (30, 200):
        with cluster(jobs=jobs) as server:
            server.ahead = ahead
            annotations = {f"tfsteps.dev/{key}": text for key, text in noted.items()}
            if "kept-until" in noted:
                annotations = {"tfsteps.dev/kept-until": at(server, -age)}
            jobs[:] = [ended(server, age, annotations=annotations)]
            if "deadline" in noted:
                jobs[0]["status"]["conditions"] = [condition("Running")]
            swept(server)
        gone.append(len(deleted(server)))
    assert gone == [0, 1]


def test_without_a_clock_of_the_server_no_age_is_known(monkeypatch):
    jobs = [job("b")]
    with cluster(jobs=jobs) as server:
        jobs.append(ended(server, DAY))
        monkeypatch.setattr("tfsteps.kube.client.Api.server_time", lambda _: None)
        lines, count = swept(server, default=HOUR)
    assert deleted(server) == [("b", "uid-b")], "its Workflow has ended, at whatever time"
    assert lines[0] == "ages of jobs are not known: the API server's answers have no header Date"
    assert count.failures == 1


def test_what_was_deleted_and_what_could_not_be_is_counted():
    pods = [replica("b", "p1")]
    with cluster(jobs=[job("a"), job("b", "Succeeded")], pods=pods) as server:
        _, count = swept(server)
    assert count.deletions == {("TFJob", Reason.ABANDONED): 1, ("Pod", Reason.ABANDONED): 1}
    assert count.undeleted == set()
    with cluster(jobs=[job("a"), job("b", owner=None)], refused={"delete": refusal(403, "Forbidden")}) as server:
        _, count = swept(server)
    assert (count.deletions, count.undeleted) == ({}, {"uid-a"})
    with cluster(jobs=[job("a")]) as server:
        _, count = swept(server, dry_run=True)
    assert (count.deletions, count.undeleted) == ({}, set())


@pytest.mark.parametrize("answer", [refusal(404, "NotFound"), refusal(409, "Conflict", "it has been modified")])
def test_what_another_janitor_deleted_is_not_counted_as_ours(answer):
    with cluster(jobs=[job("a")], refused={"delete": answer}) as server:
        lines, count = swept(server)
    assert (count.deletions, count.failures, count.undeleted) == ({}, 0, set())
    assert lines[0].startswith("TFJob ml/a is already gone or was changed: it is running, and its Workflow")


def test_a_healthy_cluster_costs_two_lists(monkeypatch):
    jobs = list(itertools.islice(map(job, map(str, itertools.count())), 50))
    with cluster(jobs=jobs, steps=[step(NODE)]) as server:
        swept(server)
    assert len(server.asked) == 2
