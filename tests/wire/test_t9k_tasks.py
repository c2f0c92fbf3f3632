"""A T9k job that is first seen after its end, when its pods are gone: `status.tasks` has the ends of the replicas."""

import time

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.launcher.lifecycle import resume
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.systems import registry

OPTIONS = {"t9k": {"clean_up": "all"}}
PLAIN = {"name": "job", "image": "t:1", "roles": {"worker": {"replicas": 2}}, "systems": OPTIONS}
T = "2026-11-25T10:00:00Z"


def entry(index, code, state="Terminated", phase="Deleted"):
    containers = [{"name": "proxy", "state": "Terminated", "exitCode": 9}]
    containers.append({"name": "tensorflow", "state": state, **({} if code is None else {"exitCode": code})})
    return {"name": f"job-worker-{index}", "uid": f"p{index}", "phase": phase, "containers": containers}


def job(*entries, key="replicas", aggregate=None):
    tasks = [{"type": "worker", "restartCount": 2, key: list(entries)}] if entries else []
    condition = {"type": "Failed", "status": "True", "reason": "WorkerFailed", "message": "It failed."}
    template = {
        "metadata": {"labels": {"tfsteps.dev/role": "worker"}},
        "spec": {"containers": [{"name": "tensorflow"}]},
    }
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "TensorFlowTrainingJob",
        "metadata": {"name": "job", "namespace": "ns", "uid": "u1", "resourceVersion": "5", "creationTimestamp": T},
        "spec": {
            "replicaSpecs": [{"type": "worker", "replicas": 2, "template": template}],
            "runPolicy": {"backoffLimit": 3, "cleanUpPolicy": "All"},
        },
        "status": {
            "phase": "Failed",
            "conditions": [{**condition, "lastTransitionTime": T}],
            "tasks": tasks,
            "aggregate": aggregate or {},
        },
    }


def followed(item, monkeypatch):
    """Return the final status of a launcher that attaches to an ended job without pods."""

    def script(asked):
        if "watch" in asked.query:
            return Answer(parts=["hang"])
        if asked.path.endswith("/tensorflowtrainingjobs"):
            return Answer(body={"metadata": {"resourceVersion": "1"}, "items": [item]})
        if asked.path.endswith(("/pods", "/events")):
            return Answer(body={"metadata": {"resourceVersion": "1"}, "items": []})
        return Answer(body=item) if asked.path.endswith("/job") else refusal(404, "NotFound")

    with serve(script) as server:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        replicas = [ReplicaStatus(role="worker", index=index) for index in (0, 1)]
        identity = Identity(run="r", task="t")
        first = Status(
            identity=identity,
            job="job",
            uid="u1",
            namespace="ns",
            system="t9k",
            created=time.time(),
            replicas=replicas,
        )
        return resume(spec.from_plain(PLAIN, "x", registry.options()), first, registry.get("t9k"))


@pytest.mark.parametrize("key", ["replicas", "replicaStatus"])
def test_replica_and_exit_code_are_named(monkeypatch, key):
    status = followed(job(entry(0, 0), entry(1, 42), key=key), monkeypatch)
    assert status.state is State.FAILED
    assert [replica.state for replica in status.replicas] == [ReplicaState.SUCCEEDED, ReplicaState.FAILED]
    assert status.failure.summary.startswith("worker-1 failed with exit code 42")
    assert "not known which" not in status.message


def test_of_several_failures_none_is_called_the_first(monkeypatch):
    status = followed(job(entry(0, 1), entry(1, 42)), monkeypatch)
    assert status.failure.replica == ""
    assert "worker-0 with exit code 1, worker-1 with exit code 42; which one first is not known" in status.message


def test_who_was_ended_by_the_platform_has_not_failed(monkeypatch):
    status = followed(job(entry(0, 143), entry(1, 42)), monkeypatch)
    assert [replica.state for replica in status.replicas] == [ReplicaState.STOPPED, ReplicaState.FAILED]
    assert status.failure.replica == "worker-1"


def test_what_is_not_told_stays_unknown(monkeypatch):
    status = followed(job(entry(0, None), entry(1, None, state="Waiting")), monkeypatch)
    assert {replica.state for replica in status.replicas} == {ReplicaState.UNKNOWN}
    assert "it is not known which replica failed" in status.message


def test_counts_alone_are_reported(monkeypatch):
    status = followed(job(aggregate={"failed": 1, "deleted": 1}), monkeypatch)
    assert "The platform counts 1 failed replica." in status.message
    assert {replica.state for replica in status.replicas} == {ReplicaState.UNKNOWN}
