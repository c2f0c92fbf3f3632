"""What a launcher learns of its own pod and Workflow: who wants it to end, and why."""

import pytest

from tests.support.waiting import until
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.cluster.api import Api
from tfsteps.systems.kubernetes.host import Host

OWNER = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w", "controller": True}
POD = {"metadata": {"name": "step", "namespace": "ns", "uid": "p", "ownerReferences": [OWNER]}}
LONE = {"metadata": {"name": "step", "namespace": "ns", "uid": "p"}}


def pod(**status):
    return Answer(body={"metadata": {"name": "step", "uid": "p"}, "status": status})


EVICTED = {
    "runs on": (pod(phase="Running"), False),
    "deleted": (Answer(body={"metadata": {"uid": "p", "deletionTimestamp": "2026-11-21T09:30:24Z"}}), True),
    "its next one is there": (Answer(body={"metadata": {"uid": "p2"}, "status": {}}), True),
    "disrupted": (pod(conditions=[{"type": "DisruptionTarget", "status": "True"}]), True),
    "not disrupted after all": (pod(conditions=[{"type": "DisruptionTarget", "status": "False"}]), False),
    "gone already": (refusal(404, "NotFound"), True),
    "we may not look": (refusal(403, "Forbidden"), False),
    "nobody answers": (refusal(503), False),
}


@pytest.mark.parametrize(("answer", "evicted"), EVICTED.values(), ids=EVICTED)
def test_evicted(answer, evicted):
    with serve([answer]) as server:
        api = Api(server.access(), patience=0)
        assert Host(api, LONE).evicted(api) is evicted


def workflow(**spec):
    return {"metadata": {"name": "wf", "uid": "w", "resourceVersion": "2"}, "spec": spec}


def listed(*items):
    return Answer(body={"metadata": {"resourceVersion": "1"}, "items": list(items)})


DELETED = {"metadata": {"deletionTimestamp": "2026-11-21T09:30:24Z"}, "spec": {}}
TERMINATING = {
    "it runs": (listed(workflow()), False),
    "it has a deadline": (listed(workflow(activeDeadlineSeconds=600)), False),
    "stopped": (listed(workflow(shutdown="Stop")), True),
    "terminated by Argo": (listed(workflow(shutdown="Terminate")), True),
    "terminated by Kubeflow Pipelines": (listed(workflow(activeDeadlineSeconds=0)), True),
    "being deleted": (listed(DELETED), True),
    "gone": (listed(), True),
}


@pytest.mark.parametrize(("answer", "terminating"), TERMINATING.values(), ids=TERMINATING)
def test_terminating(answer, terminating):
    with serve(lambda asked: Answer(parts=["hang"]) if "watch" in asked.query else answer) as server:
        api = Api(server.access())
        host = Host(api, POD)
        until(lambda: any("watch" in asked.query for asked in server.asked))
        api.stopping.set()
        assert host.terminating is terminating
        assert server.asked[0].query == {"fieldSelector": "metadata.name=wf"}


def test_terminated_later():
    event = {"type": "MODIFIED", "object": workflow(shutdown="Terminate")}
    with serve(lambda asked: Answer(parts=[event, "hang"]) if "watch" in asked.query else listed(workflow())) as server:
        api = Api(server.access())
        host = Host(api, POD)
        until(lambda: host.terminating)
        api.stopping.set()


def test_a_pod_of_a_terminating_workflow_is_not_evicted():
    with serve(lambda asked: pod() if asked.path.endswith("/step") else listed()) as server:
        api = Api(server.access())
        host = Host(api, POD)
        until(lambda: host.terminating)
        before = len([asked for asked in server.asked if asked.path.endswith("/step")])
        assert not host.evicted(api)
        assert before == 0
        assert not [asked for asked in server.asked if asked.path.endswith("/step")], "there is no time to ask"
        api.stopping.set()


def test_who_may_not_look_says_so():
    with serve([refusal(403, "Forbidden", "you may not look")]) as server:
        host = Host(Api(server.access()), POD)
        until(lambda: host.warnings)
        assert "you may not look" in host.warnings[0]
        assert not host.terminating


def test_the_owner_of_what_it_creates():
    with serve([listed(workflow())]) as server:
        api = Api(server.access())
        owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}
        assert Host(api, POD).owner == {**owner, "blockOwnerDeletion": False}
        assert Host(api, LONE).owner is None
        api.stopping.set()
