"""The requests of a finalizer to the API server, and what it removes."""

from types import SimpleNamespace

import pytest

from tests.unit.systems.kubernetes.objects import controller
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.engines.argo import pipeline
from tfsteps.engines.registry import find_pipeline
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.runs.identity import Identity
from tfsteps.systems import kubeflow
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.system import KubernetesSystem
from tfsteps.systems.launcher_pod import LauncherPod

WHO = Identity(run="r", task="uuid")
JOBS = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs"
PODS = "/api/v1/namespaces/ns/pods"
FLOWS = "/apis/argoproj.io/v1alpha1/namespaces/ns/workflows"


def job(name, condition=None, on_end=None, annotations=None, **metadata):
    conditions = [{"type": condition, "status": "True"}] if condition else []
    annotations = {**({"tfsteps.dev/on-end": on_end} if on_end else {}), **(annotations or {})}
    meta = {"name": name, "uid": f"uid-{name}", "annotations": annotations, **metadata}
    return {"metadata": meta, "spec": {}, "status": {"conditions": conditions}}


def pod(name, owner, **metadata):
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "ownerReferences": [controller(uid=owner)],
            **metadata,
        }
    }


def finalizer(api, node):
    """Return the pod of a finalizer at a node of Kubeflow Pipelines; its Workflow is not watched."""
    annotations = {"workflows.argoproj.io/node-name": node, "pipelines.kubeflow.org/v2_component": "true"}
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w", "controller": True}
    meta = {"name": "step", "namespace": "ns", "uid": "p", "annotations": annotations, "ownerReferences": [owner]}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pipeline, "Watch", lambda *_, **__: SimpleNamespace(refused_seconds=0.0))
        return LauncherPod.of(api, {"metadata": meta}, find_pipeline)


def clean_up(
    jobs, monkeypatch, pods=(), *, scope="run", on_end=None, node=None, workflow=None, deleted=None, refused=None
):
    """Clean up what a server lists; return the removed names, the deletions (path, uid), and the label selectors.

    `workflow` may be a list of what is answered one after another. The deletions are put into `deleted` as well.
    `refused` is the answer to the first list.
    """
    first = [refused] if refused else []
    deleted = [] if deleted is None else deleted

    def script(asked):
        if asked.method == "DELETE":
            deleted.append((asked.path, asked.body["preconditions"]["uid"]))
            return Answer(body={})
        if asked.path == FLOWS:
            flow = workflow.pop(0) if isinstance(workflow, list) else workflow
            return flow if isinstance(flow, Answer) else Answer(body={"items": [flow] if flow else []})
        if isinstance(jobs, Answer):
            return jobs
        if asked.path == JOBS and first:
            return first.pop()
        items = {JOBS: jobs, PODS: pods}[asked.path]
        if isinstance(items, Answer):
            return items
        if asked.path == PODS or len(items) < 2:
            return Answer(body={"metadata": {}, "items": list(items)})
        rest = asked.query.get("continue")  # pages of one
        at = int(rest or 0)
        more = {"continue": str(at + 1)} if at + 1 < len(items) else {}
        return Answer(body={"metadata": more, "items": [items[at]]})

    with serve(script) as server:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        system = kubeflow.PLUGIN.system()
        api = Api(server.access(), patience=0)
        if node:
            system._host = finalizer(api, node)
        removed = system.clean_up(WHO, scope, on_end)
        return removed, deleted, [item.query["labelSelector"] for item in server.asked if item.path == JOBS]


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


@pytest.mark.parametrize(("terminated", "removed"), [(False, ["b"]), (True, ["a", "b"]), (None, ["b"])])
def test_a_job_that_is_kept_for_a_retry_is_removed_only_if_the_run_is_terminated(terminated, removed, monkeypatch):
    """The finalizer reads the Workflow, which its watch may not have reported yet."""
    kept = {"tfsteps.dev/kept-until": "2999-01-01T00:00:00+00:00"}
    jobs = [job("a", annotations=kept), job("b", annotations={**kept, "tfsteps.dev/kept-for-try": "true"})]
    monkeypatch.setattr("tfsteps.kube.http_client.SETTLE_SECONDS", 0.0)
    flow = {"metadata": {"name": "wf", "uid": "w"}, "spec": {"shutdown": "Terminate"} if terminated else {}}
    workflow = refusal(403, "Forbidden") if terminated is None else flow
    assert clean_up(jobs, monkeypatch, node="exit.cleanup", workflow=workflow)[0] == removed


@pytest.mark.parametrize(
    ("jobs", "pods", "left"),
    [
        ([job("a", "Succeeded"), job("b", "Running")], refusal(422, "Invalid", "no pods"), "no pods"),
        ([job("a", annotations={"tfsteps.dev/kept-until": ["?"]}), job("b")], (), "TFJob ns/a was left: it is not"),
        ([{**job("a"), "status": ["?"]}, job("b")], (), "TFJob ns/a was left: it is not understood"),
    ],
    ids=["its pods cannot be listed", "an annotation is not understood", "its state is not understood"],
)
def test_a_job_that_cannot_be_cleaned_up_does_not_keep_the_others(jobs, pods, left, monkeypatch):
    deleted = []
    with pytest.raises(LaunchError, match=left) as caught:
        clean_up(jobs, monkeypatch, pods, deleted=deleted)
    assert deleted == [(f"{JOBS}/b", "uid-b")]
    assert caught.value.removed == ["b"]


def test_unfinished_jobs_come_first(monkeypatch):
    jobs = [job("a", "Succeeded"), job("b", "Failed"), job("c", "Running")]
    assert clean_up(jobs, monkeypatch, on_end="delete")[0] == ["c", "a", "b"]


def test_pods_that_are_gone_already(monkeypatch):
    assert clean_up([job("a", "Succeeded")], monkeypatch)[:2] == ([], [])


def test_every_page_is_read(monkeypatch):
    assert clean_up([job("a"), job("b"), job("c")], monkeypatch)[0] == ["a", "b", "c"]


def test_selected_on_the_server(monkeypatch):
    [selector] = clean_up([], monkeypatch)[2]
    assert selector == "app.kubernetes.io/managed-by=tfsteps,tfsteps.dev/run-id=r,tfsteps.dev/attempt"


def launched(*steps, detached=()):
    """Return a job of each step of a Workflow, which has the step's name."""
    note = {"tfsteps.dev/detached": "2026-11-23T10:00:00+00:00"}
    annotations = {name: {"tfsteps.dev/launcher": f"wf.root.{name}.executor"} for name in steps}
    return [
        job(name, annotations={**annotation, **(note if name in detached else {})})
        for name, annotation in annotations.items()
    ]


def phases(**nodes):
    """Return a Workflow with the phases of some steps."""
    node_statuses = {name: {"name": f"wf.root.{name}.executor", "phase": phase} for name, phase in nodes.items()}
    return {"metadata": {"name": "wf", "uid": "w"}, "status": {"nodes": node_statuses}}


IN_HANDLER = ("exit-handler-1.a", "exit-handler-1.for-loop-1.iteration-item(0:0).in.b")


@pytest.mark.parametrize(
    ("node", "steps", "removed"),
    [
        ("a.onExit.cleanup", ("a", "b", "inner.a"), ["a"]),
        ("inner.onExit.cleanup", ("a", "inner.a", "inner-2.a"), ["inner.a"]),
        ("exit-handler-1.onExit.cleanup", (*IN_HANDLER, "a"), [*IN_HANDLER]),
        ("cleanup", ("a", "b", "c", "inner.a"), ["a", "c"]),
    ],
)
def test_siblings_are_what_was_launched_below_the_node_that_has_ended(node, steps, removed, monkeypatch):
    flow = phases(a="Failed", b="Running", c="Succeeded")
    outcome = clean_up(launched(*steps), monkeypatch, scope="siblings", node=f"wf.root.{node}.executor", workflow=flow)
    assert outcome[0] == removed


NODES_ELSEWHERE = {"metadata": {"name": "wf", "uid": "w"}, "status": {"offloadNodeStatusVersion": "fnv:1"}}
NOT_KNOWN = {
    "no permission": refusal(403, "Forbidden", "you may not list"),
    "no answer": refusal(503, "", "come later"),
    "another shape": Answer(body=b"{}"),
    "the nodes are stored elsewhere": NODES_ELSEWHERE,
    "the nodes cannot be unpacked": {**NODES_ELSEWHERE, "status": {"compressedNodes": "bm90IGd6aXA="}},
    "another Workflow of its name": {**phases(a="Failed"), "metadata": {"name": "wf", "uid": "w2"}},
    "no Workflow": None,
}


@pytest.mark.parametrize("flow", NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_jobs_are_left_if_it_is_not_known_whether_their_steps_have_ended(flow, monkeypatch):
    monkeypatch.setattr("tfsteps.kube.http_client.SETTLE_SECONDS", 0.0)
    deleted = []
    with pytest.raises(LaunchError) as caught:
        clean_up(
            launched("a", "b"),
            monkeypatch,
            scope="siblings",
            node="wf.root.cleanup.executor",
            workflow=flow,
            deleted=deleted,
        )
    assert caught.value.retryable
    assert deleted == []
    for name in ("a", "b"):
        assert f"TFJob ns/{name} was left: whether its step has ended is not known (" in str(caught.value)


def test_one_refusal_of_the_workflow_is_asked_again(monkeypatch):
    flows = [refusal(403, "Forbidden"), phases(a="Failed", b="Running")]
    node = "wf.root.cleanup.executor"
    assert clean_up(launched("a", "b"), monkeypatch, scope="siblings", node=node, workflow=flows)[0] == ["a"]


def test_a_job_that_waits_for_its_wait_step_is_left_by_the_hook_of_its_launch_step(monkeypatch):
    jobs = launched("inner.launch", detached=["inner.launch"])
    waiting = phases(inner="Running")
    runs = {"name": "container", "value": '{"command":["python","-m","tfsteps.steps.wait.launcher"]}'}
    wait = {"name": "wait-driver", "arguments": {"parameters": [runs]}}
    waiting["spec"] = {"templates": [{"name": "t", "dag": {"tasks": [wait]}}]}
    for flow, removed in ((waiting, []), (phases(inner="Running"), ["inner.launch"])):
        for node in ("inner.launch", "inner"):
            hook = f"wf.root.{node}.onExit.cleanup.executor"
            assert clean_up(jobs, monkeypatch, scope="siblings", node=hook, workflow=flow)[0] == removed
    hook, flow = "wf.root.inner.launch.onExit.cleanup.executor", waiting
    flow["spec"]["shutdown"] = "Terminate"
    assert clean_up(jobs, monkeypatch, scope="siblings", node=hook, workflow=flow)[0] == ["inner.launch"]


def test_without_a_workflow_siblings_share_the_folder_of_their_task(monkeypatch):
    jobs = [job(name, annotations={"tfsteps.dev/launcher": task}) for name, task in (("a", "t"), ("b", "in/t"))]
    assert clean_up(jobs, monkeypatch, scope="siblings")[0] == ["a"]


def test_a_cluster_without_such_jobs(monkeypatch):
    monkeypatch.setattr("tfsteps.kube.http_client._SETTLE_PAUSES", (5.0, 5.0))
    assert clean_up(refusal(404, "", "404 page not found"), monkeypatch)[0] == []


def test_missing_permissions(monkeypatch):
    monkeypatch.setattr("tfsteps.kube.http_client._SETTLE_PAUSES", (5.0, 5.0))
    with pytest.raises(LaunchError, match=r"needs to list and delete tfjobs\.kubeflow\.org and pods in namespace ns"):
        clean_up(refusal(403, "Forbidden"), monkeypatch)


ONCE = {"not served": refusal(404, "", "404 page not found"), "forbidden": refusal(403, "Forbidden")}


@pytest.mark.parametrize("refused", ONCE.values(), ids=ONCE)
def test_one_refused_list_is_not_the_absence_of_jobs(refused, monkeypatch):
    monkeypatch.setattr("tfsteps.kube.http_client._SETTLE_PAUSES", (0.01, 0.01))
    assert clean_up([job("a", "Running")], monkeypatch, refused=refused)[0] == ["a"]


def test_siblings_that_cannot_be_identified(monkeypatch):
    kept = job("a", annotations={"tfsteps.dev/kept-until": "2999-01-01T00:00:00+00:00"})
    unread = LauncherPod(None, "ns", "step", find_pipeline)
    unread.unread = "you may not"
    monkeypatch.setattr(KubernetesSystem, "_host", unread)
    deleted = []
    with pytest.raises(LaunchError, match=r"own pod cannot be read \(you may not\)"):
        clean_up([kept, job("b")], monkeypatch, scope="siblings", deleted=deleted)
    assert deleted == []
    assert clean_up([kept, job("b")], monkeypatch, scope="run")[0] == ["b"], "the run may go on, and adopt it"
