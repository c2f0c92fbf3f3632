"""What a launcher reads of its own pod and pipeline: who asks it to stop, and why."""

import time

import pytest

from tests.support.waiting import until
from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.answer import known, unknown
from tfsteps.api import job_input
from tfsteps.engines.argo.node_names import tries
from tfsteps.engines.argo.pipeline import WorkflowContext
from tfsteps.engines.registry import find_pipeline
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.kube.watch import Changed, Listed
from tfsteps.steps import job_step
from tfsteps.systems.base import JobNote
from tfsteps.systems.kubernetes.cleanup.retention import LAUNCHER
from tfsteps.systems.launcher_pod import LauncherPod

SINCE = 5.0  # seconds since SIGTERM
OWNER = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w", "controller": True}
POD = {"metadata": {"name": "step", "namespace": "ns", "uid": "p", "ownerReferences": [OWNER]}}
LONE = {"metadata": {"name": "step", "namespace": "ns", "uid": "p"}}


def pod(**status):
    return Answer(body={"metadata": {"name": "step", "uid": "p"}, "status": status})


EVICTED = {
    "runs on": (pod(phase="Running"), "no"),
    "deleted": (Answer(body={"metadata": {"uid": "p", "deletionTimestamp": "2026-11-21T09:30:24Z"}}), "yes"),
    "its next one is there": (Answer(body={"metadata": {"uid": "p2"}, "status": {}}), "yes"),
    "disrupted": (pod(conditions=[{"type": "DisruptionTarget", "status": "True"}]), "yes"),
    "not disrupted after all": (pod(conditions=[{"type": "DisruptionTarget", "status": "False"}]), "no"),
    "gone already": (refusal(404, "NotFound"), "yes"),
    "the kind is not served": (Answer(404, b"404 page not found"), "unknown"),
    "we may not look": (refusal(403, "Forbidden"), "unknown"),
    "nobody answers": (refusal(503), "unknown"),
    "too many requests": (refusal(429), "unknown"),
    "reset": ("reset", "unknown"),
    "another shape": (Answer(body=b"{}"), "unknown"),
    "conditions of another shape": (pod(conditions=7), "unknown"),
}


@pytest.mark.parametrize(("answer", "evicted"), EVICTED.values(), ids=EVICTED)
def test_evicted(answer, evicted):
    with serve([answer]) as server:
        api = Api(server.access(), patience=0)
        assert LauncherPod.of(api, LONE).is_taken_away(api, SINCE).value == evicted


def test_the_kubelet_sends_sigterm_before_the_eviction_shows():
    with serve([pod(phase="Running")]) as server:
        api = Api(server.access(), patience=0)
        assert [LauncherPod.of(api, LONE).is_taken_away(api, since).value for since in (0.0, 0.9, 1.0)] == [
            *["unknown"] * 2,
            "no",
        ]


REFUSED = {"refused": refusal(403, "Forbidden", "RBAC is not ready"), "absent": refusal(404, "NotFound")}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_refusal_of_the_own_pod_is_not_believed_at_once(refused, monkeypatch):
    monkeypatch.setenv("POD_NAME", "step")
    with serve([refused, Answer(body=POD), listed(workflow())]) as server:
        api = Api(server.access())
        host = LauncherPod.find(api, find_pipeline)
        assert (host.unread, host.warnings, host.pipeline.owner["name"]) == ("", [], "wf")
        host._api.stopping.set()


def test_a_pod_that_cannot_be_read_is_neither_evicted_nor_without_a_pipeline(monkeypatch):
    monkeypatch.setenv("POD_NAME", "step")
    monkeypatch.setattr("tfsteps.kube.http_client._SETTLE_PAUSES", (5.0, 5.0))
    with serve([refusal(403, "Forbidden", "you may not"), Answer(body=POD), listed(workflow())]) as server:
        api = Api(server.access(), patience=0)
        host = LauncherPod.find(api, find_pipeline)
        assert (host.followed(), host.is_taken_away(api, SINCE)) == (unknown("you may not"),) * 2
        assert "cannot read its own pod ns/step (you may not)" in host.warnings[0]
        host.retry_read(api)
        assert (host.unread, host.pipeline.step) == ("", "")
        host._api.stopping.set()


REFUSED_WATCH = {"refused": refusal(403, "Forbidden"), "a log-in page": Answer(body=b"<html>")}


@pytest.mark.parametrize("refused", REFUSED_WATCH.values(), ids=REFUSED_WATCH)
def test_a_pipeline_that_is_found_late_is_watched_as_any_other(refused, monkeypatch):
    """A client of urgent requests, which asks for the pod then, gives up a watch at the first refusal."""
    monkeypatch.setenv("POD_NAME", "step")
    monkeypatch.setattr("tfsteps.kube.http_client._SETTLE_PAUSES", (5.0, 5.0))
    answers = [refusal(403, "Forbidden"), Answer(body=POD), refused, listed(workflow(shutdown="Stop"))]
    with serve(answers) as server:
        host = LauncherPod.find(Api(server.access()), find_pipeline)
        host.retry_read(Api(server.access(), patience=0))
        until(lambda: host.pipeline.terminating.yes)
        host._api.stopping.set()


def test_a_pod_of_another_kind_of_workflow_has_no_workflow():
    pod = {"metadata": {**POD["metadata"], "ownerReferences": [{**OWNER, "apiVersion": "example.org/v1"}]}}
    with serve([refusal(404, "NotFound")]) as server:
        assert find_pipeline(Api(server.access(), patience=0), pod) is None
    assert server.asked == [], "a Workflow of Argo's that is not there would count as deleted"


def test_a_token_that_cannot_be_read_is_reported_by_the_request():
    def missing(_refused):
        raise FileNotFoundError("token")

    def broken(_refused):
        raise AccessError("the token is not a token")

    with serve([]) as server:
        with pytest.raises(ApiError, match="cannot be reached: token"):
            LauncherPod.find(Api(server.access(missing), patience=0), None)
        assert LauncherPod.find(Api(server.access(broken), patience=0), None).unread == "the token is not a token"
        assert not server.asked


def workflow(**spec):
    return {"metadata": {"name": "wf", "uid": "w", "resourceVersion": "2"}, "spec": spec}


def listed(*items):
    return Answer(body={"metadata": {"resourceVersion": "1"}, "items": list(items)})


DELETED = {"metadata": {"name": "wf", "uid": "w", "deletionTimestamp": "2026-11-21T09:30:24Z"}, "spec": {}}
TERMINATING = {
    "it runs": (listed(workflow()), False),
    "it has a deadline": (listed(workflow(activeDeadlineSeconds=600)), False),
    "stopped": (listed(workflow(shutdown="Stop")), True),
    "terminated by Argo": (listed(workflow(shutdown="Terminate")), True),
    "terminated by Kubeflow Pipelines": (listed(workflow(activeDeadlineSeconds=0)), True),
    "being deleted": (listed(DELETED), True),
    "gone": (listed(), True),
}


CERTAIN = refusal(404, "NotFound", about="wf")


def of_workflow(answer, gone=CERTAIN):
    """Answer lists with `answer`, and who asks for the Workflow by its name with `gone`."""

    def script(asked):
        if asked.path.endswith("/workflows/wf"):
            return gone
        return Answer(parts=["hang"]) if "watch" in asked.query else answer

    return script


@pytest.mark.parametrize(("answer", "terminating"), TERMINATING.values(), ids=TERMINATING)
def test_terminating(answer, terminating):
    with serve(of_workflow(answer)) as server:
        api = Api(server.access())
        pipeline = find_pipeline(api, POD)
        until(lambda: any("watch" in asked.query for asked in server.asked))
        api.stopping.set()
        assert pipeline.terminating == known(terminating)
        assert server.asked[0].query == {"fieldSelector": "metadata.name=wf"}


def test_a_workflow_that_runs_is_at_no_time_seen_as_ending():
    """Another thread reads the attribute at any time."""
    seen = []

    class Spied(WorkflowContext):
        def __setattr__(self, name, value):
            seen.append(value) if name == "terminating" else None
            super().__setattr__(name, value)

    with serve(of_workflow(listed(workflow()))) as server:
        context = Spied(Api(server.access()), POD, OWNER)
        for event in (Listed([workflow()]), Changed(workflow()), Listed([workflow()])):
            context._on_event(event)
        context._api.stopping.set()
    assert len(seen) > 3
    assert not [answer for answer in seen if answer.yes]


def test_terminated_later():
    event = {"type": "MODIFIED", "object": workflow(shutdown="Terminate")}
    with serve(lambda asked: Answer(parts=[event, "hang"]) if "watch" in asked.query else listed(workflow())) as server:
        api = Api(server.access())
        pipeline = find_pipeline(api, POD)
        until(lambda: pipeline.terminating.yes)
        api.stopping.set()


def test_no_pod_follows_in_a_terminating_workflow():
    with serve(lambda asked: pod() if asked.path.endswith("/step") else of_workflow(listed())(asked)) as server:
        api = Api(server.access())
        host = LauncherPod.of(api, POD, find_pipeline)
        until(lambda: host.pipeline.terminating.yes)
        assert host.followed().no
        assert not [asked for asked in server.asked if asked.path.endswith("/step")], "there is no time to ask"
        api.stopping.set()


KUBEFLOW = {"pipelines.kubeflow.org/v2_component": "true"}
ALWAYS, ON_ERROR = {"retryPolicy": "Always"}, {"limit": "2", "retryPolicy": "OnError"}
FOLLOWED = {  # what Argo sees of the node, labels, node, strategy: whether another pod follows, and that for a new job
    "Kubeflow Pipelines 2.15": ("Running", KUBEFLOW, "wf.root.fit.executor", None, ("no", "no")),
    "and set_retry": ("Running", KUBEFLOW, "wf.root.fit.executor(0)", {"limit": "2"}, ("unknown", "unknown")),
    "and Pending": ("Pending", KUBEFLOW, "wf.root.fit.executor", None, ("unknown", "no")),
    "Kubeflow Pipelines 2.17": (
        "Running",
        KUBEFLOW,
        "wf(0).root(0).fit(0).executor(0)",
        ON_ERROR,
        ("unknown", "unknown"),
    ),
    "Argo without a retryStrategy": ("Running", {}, "wf.fit", None, ("no", "no")),
    "and Pending, which it may have seen run by now": ("Pending", {}, "wf.fit", None, ("unknown", "no")),
    "Argo tries again": ("Running", {}, "wf.fit(0)", ALWAYS, ("yes", "yes")),
}


@pytest.mark.parametrize(("phase", "labels", "node", "strategy", "expected"), FOLLOWED.values(), ids=FOLLOWED)
def test_whether_another_pod_follows(phase, labels, node, strategy, expected):
    annotations = {"workflows.argoproj.io/node-name": node, "workflows.argoproj.io/node-id": "wf-1"}
    pod = {"metadata": {**POD["metadata"], "labels": labels, "annotations": annotations}}
    levels = {item.node: {"name": item.node, "phase": phase, "templateName": "fit"} for item in tries(node)}
    flow = workflow(templates=[{"name": "fit", **({"retryStrategy": strategy} if strategy else {})}])
    flow["status"] = {"nodes": {**levels, "wf-1": {"name": node, "phase": phase, "templateName": "fit"}}}
    with serve(of_workflow(listed(flow))) as server:
        api = Api(server.access())
        host = LauncherPod.of(api, pod, find_pipeline)
        until(lambda: any("watch" in asked.query for asked in server.asked))
        assert (host.followed().value, host.followed(new=True).value) == expected
        assert not [asked for asked in server.asked if "/pods" in asked.path], "there is no time to ask"
        api.stopping.set()


@pytest.mark.parametrize("labels", [KUBEFLOW, {}], ids=["Kubeflow Pipelines", "Argo"])
def test_a_workflow_that_was_not_seen_yet_may_try_again(labels):
    pod = {"metadata": {**POD["metadata"], "labels": labels}}
    with serve(lambda _asked: refusal(503)) as server:
        api = Api(server.access())
        host = LauncherPod.of(api, pod, find_pipeline)
        assert host.followed().unknown
        assert host.followed(new=True).unknown
        api.stopping.set()


def test_a_refused_watch_of_the_workflow_is_a_warning():
    with serve([refusal(403, "Forbidden", "you may not look")]) as server:
        pipeline = find_pipeline(Api(server.access(), patience=0.5), POD)
        until(lambda: pipeline.warnings)
        assert "you may not look" in pipeline.warnings[0]
        assert not pipeline.terminating.yes


def test_a_watch_that_is_refused_for_seconds_is_a_warning_before_it_is_given_up(monkeypatch):
    monkeypatch.setattr("tfsteps.engines.argo.pipeline.SETTLE_SECONDS", 0.2)
    with serve(lambda _: refusal(403, "Forbidden", "you may not look")) as server:
        api = Api(server.access(), patience=600.0)
        pipeline = find_pipeline(api, POD)
        until(lambda: pipeline.warnings)
        assert "you may not look" in pipeline.warnings[0]
        assert pipeline.terminating.unknown
        api.stopping.set()


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        (Answer(body=b"{}"), CERTAIN),
        (Answer(body=b"<html>log in</html>"), CERTAIN),
        (listed(), Answer(404, b"404 page not found")),
        (listed(), Answer(body=b"{}")),
        (listed(), refusal(503)),
        (listed(), Answer(body=workflow())),
    ],
    ids=["{}", "HTML", "and 404 of a proxy", "and {}", "and 503", "and yet it is there"],
)
def test_an_answer_that_does_not_list_the_workflow_does_not_end_it(answer, gone):
    with serve(of_workflow(answer, gone)) as server:
        api = Api(server.access())
        pipeline = find_pipeline(api, POD)
        until(lambda: len(server.asked) > 3)
        api.stopping.set()
        assert not pipeline.terminating.yes


def test_another_workflow_of_its_name_is_not_its_own():
    other = {"type": "MODIFIED", "object": {"metadata": {"uid": "w2"}, "spec": {"shutdown": "Terminate"}}}
    events = Answer(parts=[other, {"type": "BOOKMARK", "object": workflow()}, "hang"])
    with serve(lambda asked: events if "watch" in asked.query else listed(workflow())) as server:
        api = Api(server.access())
        pipeline = find_pipeline(api, POD)
        until(lambda: any("watch" in asked.query for asked in server.asked))
        time.sleep(0.5)
        api.stopping.set()
        assert not pipeline.terminating.yes


def test_the_owner_of_what_it_creates():
    with serve([listed(workflow())]) as server:
        api = Api(server.access())
        owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}
        assert find_pipeline(api, POD).owner == {**owner, "blockOwnerDeletion": False}
        assert find_pipeline(api, LONE) is None
        api.stopping.set()


SYSTEMS = {
    "of a step": lambda: job_step.find_system("kubeflow"),
    "of a step, with two APIs": lambda: job_step.find_system("tfjob-v1alpha1"),
    "of a finalizer": lambda: job_step.find_finalizer("auto"),
    "of the command": lambda: job_input.find_system("kubeflow"),
}


@pytest.mark.parametrize("make", SYSTEMS.values(), ids=SYSTEMS)
def test_a_job_system_in_a_pod_finds_its_pipeline(make, monkeypatch):
    annotated = {"metadata": {**POD["metadata"], "annotations": {"workflows.argoproj.io/node-name": "wf.fit(0)"}}}

    def script(asked):
        if asked.method == "PATCH":
            return Answer(body={"metadata": {"name": "a", "uid": "u"}})
        return Answer(body=annotated) if asked.path.endswith("/pods/step") else of_workflow(listed(workflow()))(asked)

    with serve(script) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("POD_NAME", "step")
        monkeypatch.setattr(access, "in_cluster", lambda: True)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        monkeypatch.setattr(job_step, "_discovered_system", lambda _cluster: "kubeflow")
        system = make()
        system.note(spec.from_plain({"name": "a", "roles": {"worker": {}}}), "a", "u", JobNote.FOLLOWED)
        (change,) = [asked.body["metadata"] for asked in server.asked if asked.method == "PATCH"]
        assert change["annotations"][LAUNCHER] == "wf.fit"
        system.give_up()
