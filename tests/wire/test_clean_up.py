"""What a finalizer asks of the API server, and what it removes."""

import types

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps.cluster import access
from tfsteps.identity import Identity, short_hash
from tfsteps.systems import kubeflow
from tfsteps.systems.base import LaunchError

WHO = Identity(run="r", task="uuid")
JOBS = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs"
PODS = "/api/v1/namespaces/ns/pods"


def job(name, condition=None, on_end=None, **metadata):
    conditions = [{"type": condition, "status": "True"}] if condition else []
    annotations = {"tfsteps.dev/on-end": on_end} if on_end else {}
    meta = {"name": name, "uid": f"uid-{name}", "annotations": annotations, **metadata}
    return {"metadata": meta, "spec": {}, "status": {"conditions": conditions}}


def pod(name, owner, **metadata):
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "ownerReferences": [{"kind": "TFJob", "uid": owner}],
            **metadata,
        }
    }


def clean_up(jobs, monkeypatch, pods=(), *, scope="run", on_end=None, node=None):
    """Clean up what a server lists; return the removed names, the deletions (path, uid), and the label selectors."""

    def script(asked):
        if asked.method == "DELETE":
            return Answer(body={})
        if isinstance(jobs, Answer):
            return jobs
        items = {JOBS: jobs, PODS: pods}[asked.path]
        if asked.path == PODS or len(items) < 2:
            return Answer(body={"metadata": {}, "items": list(items)})
        rest = asked.query.get("continue")  # pages of one
        at = int(rest or 0)
        more = {"continue": str(at + 1)} if at + 1 < len(items) else {}
        return Answer(body={"metadata": more, "items": [items[at]]})

    with serve(script) as server:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        system = kubeflow.system()
        system._host = types.SimpleNamespace(scope=node, owner={}) if node is not None else None
        removed = system.clean_up(WHO, scope, on_end)
        deleted = [(each.path, each.body["preconditions"]["uid"]) for each in server.asked if each.method == "DELETE"]
        return removed, deleted, [each.query["labelSelector"] for each in server.asked if each.path == JOBS]


@pytest.mark.parametrize(
    ("item", "on_end", "gone"),
    [
        (job("a"), None, "job"),
        (job("a", "Running"), "keep", "job"),
        (job("a", "Running", "keep"), None, "job"),
        (job("a", "Running", deletionTimestamp="now"), None, ""),
        (job("a", "Succeeded"), None, "pods"),
        (job("a", "Succeeded", "keep"), None, ""),
        (job("a", "Failed"), None, ""),
        (job("a", "Failed", "delete"), None, "job"),
        (job("a", "Failed", "delete"), "keep", ""),
        (job("a", "Failed"), "delete_pods", "pods"),
        (job("a", "Failed"), "delete", "job"),
    ],
)
def test_what_is_removed_of_a_job(item, on_end, gone, monkeypatch):
    pods = [pod("a-worker-0", "uid-a"), pod("other", "uid-b"), pod("going", "uid-a", deletionTimestamp="now")]
    removed, deleted, _ = clean_up([item], monkeypatch, pods, on_end=on_end)
    expected = {"job": [(f"{JOBS}/a", "uid-a")], "pods": [(f"{PODS}/a-worker-0", "uid-a-worker-0")], "": []}
    assert deleted == expected[gone]
    assert removed == (["a"] if gone else [])


def test_pods_that_are_gone_already(monkeypatch):
    assert clean_up([job("a", "Succeeded")], monkeypatch)[:2] == ([], [])


def test_every_page_is_read(monkeypatch):
    assert clean_up([job("a"), job("b"), job("c")], monkeypatch)[0] == ["a", "b", "c"]


def test_selected_on_the_server(monkeypatch):
    [run] = clean_up([], monkeypatch)[2]
    assert run == "app.kubernetes.io/managed-by=tfsteps,tfsteps.dev/run-id=r"
    beside, own = clean_up([], monkeypatch, scope="siblings", node="wf.root")[2]
    assert beside == f"{run},tfsteps.dev/scope={short_hash('wf.root')}"
    assert own == f"{run},tfsteps.dev/task=wf.root"


def test_a_cluster_without_such_jobs(monkeypatch):
    assert clean_up(refusal(404, "", "404 page not found"), monkeypatch)[0] == []


def test_rights_that_are_missing(monkeypatch):
    with pytest.raises(LaunchError, match=r"needs to list and delete tfjobs\.kubeflow\.org and pods in namespace ns"):
        clean_up(refusal(403, "Forbidden"), monkeypatch)


def test_siblings_that_cannot_be_told(monkeypatch):
    monkeypatch.setattr(access, "in_cluster", lambda: True)
    with pytest.raises(LaunchError, match="may not get its own pod"):
        clean_up([], monkeypatch, scope="siblings")
