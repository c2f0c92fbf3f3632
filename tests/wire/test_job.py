"""A followed job whose two watches report events in another order than they happened in."""

import datetime as dt
import itertools
import threading

import pytest

from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube.client import Api
from tfsteps.runs.events import LogLines, ReplicaChanged, ReplicaState, State
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow import following
from tfsteps.systems.kubernetes.follow.job import KubernetesJob
from tfsteps.systems.kubernetes.follow.job_object import REPLICAS

JOB = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {}}})
VERSION = {"resourceVersion": "1"}


def versioned(item):
    return {**item, "metadata": {**item["metadata"], **VERSION}}


def listed(*items):
    return Answer(body={"metadata": VERSION, "items": list(items)})


def events(*pairs):
    """Return the answer to a watch: pairs of (type, object), and pauses in seconds; then it stays open."""
    parts = [pair if isinstance(pair, float) else {"type": pair[0], "object": versioned(pair[1])} for pair in pairs]
    return Answer(parts=[*parts, "hang"])


def follow(about_job, about_pods, pods_at_the_end, printed=0, refuse=None):
    """Return the events of a job whose one pod runs at first, from what its watches say later.

    When the job has ended, its log has that many lines, of which one comes each half a second; the first requests for
    it get the answers in `refuse`.
    """
    pod_lists = [listed(pod("running")), listed(*pods_at_the_end)]
    pods_seen = threading.Event()

    def script(asked):
        if asked.path.endswith("/log"):
            if asked.query["follow"] == "true":
                return Answer(body=b"")
            return refuse.pop(0) if refuse else rest_of_log(printed, asked.query)
        if asked.path.endswith("/tfjobs"):
            return about_job if "watch" in asked.query and pods_seen.wait(60) else listed(tfjob("Running"))
        if "/pods/" in asked.path:  # of a reader without a line: is it still the same pod?
            return Answer(body=pod("running"))
        if "watch" in asked.query:
            pods_seen.set()
            return about_pods
        return pod_lists.pop(0)

    with serve(script) as server:
        return list(KubernetesJob(Api(server.access()), TFJob(), tfjob(), JOB, None).events())


def rest_of_log(printed, query):
    first = dt.datetime.fromisoformat(query.get("sinceTime", "2026-01-01T00:00:00Z")).second
    lines = [b"2026-01-01T00:00:%02d.5Z line %d\n" % (number, number) for number in range(first, printed)]
    if "tailLines" in query:
        return Answer(parts=lines[-int(query["tailLines"]) :], body=b"")
    return Answer(parts=list(itertools.chain.from_iterable((0.5, line) for line in lines)), body=b"")


def ends(seen):
    return [
        (item.state, item.reason)
        for item in seen
        if isinstance(item, ReplicaChanged) and item.state is not ReplicaState.RUNNING
    ]


def test_a_pod_that_was_deleted_before_its_end_was_reported():
    evicted = pod("evicted by the API")
    seen = follow(
        events(0.2, ("MODIFIED", tfjob("Failed"))),
        events(0.6, ("MODIFIED", evicted), ("DELETED", evicted)),
        pods_at_the_end=[],
    )
    assert seen[-1].state is State.FAILED
    assert ends(seen) == [(ReplicaState.FAILED, "EvictionByEvictionAPI")]


def evicting():
    """Return a pod that runs on in its grace period."""
    item = pod("running")
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    item["status"] = {**item["status"], "conditions": [*item["status"].get("conditions", []), disrupted]}
    item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return item


def test_a_pod_whose_eviction_failed_the_job_before_it_ended():
    seen = follow(
        events(0.2, ("MODIFIED", tfjob("Failed"))),
        events(1.2, ("MODIFIED", pod("evicted by the API"))),
        pods_at_the_end=[evicting()],
    )
    assert ends(seen) == [(ReplicaState.FAILED, "EvictionByEvictionAPI")]
    assert next(item.exit_code for item in seen if isinstance(item, ReplicaChanged) and item.exit_code) == 143


def test_a_pod_whose_eviction_failed_the_job_and_that_does_not_end(monkeypatch):
    monkeypatch.setattr(following, "DRAIN_SECONDS", 1.0)
    seen = follow(events(0.2, ("MODIFIED", tfjob("Failed"))), events(), pods_at_the_end=[evicting()])
    assert ends(seen) == [(ReplicaState.FAILED, "EvictionByEvictionAPI")]


def test_a_pod_whose_end_is_only_seen_by_looking_again():
    seen = follow(events(0.2, ("MODIFIED", tfjob("Failed"))), events(), [pod("out of memory")])
    assert ends(seen) == [(ReplicaState.FAILED, "OOMKilled")]


def test_the_states_of_the_replicas_are_noted_before_their_pods_are_deleted():
    changes = []

    def script(asked):
        if asked.path.endswith("/log"):
            return Answer(body=b"")
        if asked.method in ("PATCH", "DELETE"):
            changes.append((asked.method, asked.path.rpartition("/")[2], asked.body))
            return refusal(403)
        if "watch" in asked.query:
            return events()
        return listed(tfjob("Succeeded")) if asked.path.endswith("/tfjobs") else listed(pod("succeeded"))

    with serve(script) as server:
        followed = KubernetesJob(Api(server.access()), TFJob(), tfjob(), JOB, None)
        list(followed.events())
        changes.clear()  # the labels of the pod
        with pytest.raises(LaunchError, match="the pods of job could not be deleted"):
            followed.remove("pods")
    (noting, name, body), (deleting, removed, _) = changes
    assert (noting, name, deleting, removed) == ("PATCH", "job", "DELETE", "job-worker-0")
    assert body["metadata"] == {"uid": "u1", "annotations": {REPLICAS: '{"succeeded":{"worker":[[0,0]]}}'}}


def test_the_pods_of_an_ended_job_are_deleted_at_the_same_time():
    together = threading.Barrier(2)

    def script(asked):
        if asked.path.endswith("/log"):
            return Answer(body=b"")
        if asked.method == "DELETE":
            try:
                together.wait(10)
            except threading.BrokenBarrierError:
                return refusal(403)
            return Answer(body={"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
        if asked.method == "PATCH":
            return refusal(403)
        if "watch" in asked.query:
            return events()
        pods = [pod("succeeded", f"worker-{index}", f"p{index}") for index in range(2)]
        return listed(tfjob("Succeeded")) if asked.path.endswith("/tfjobs") else listed(*pods)

    job = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {"replicas": 2}}})
    with serve(script) as server:
        followed = KubernetesJob(Api(server.access()), TFJob(), tfjob(), job, None)
        list(followed.events())
        followed.remove("pods")
    uids = {asked.body["preconditions"]["uid"] for asked in server.asked if asked.method == "DELETE"}
    assert uids == {"p0", "p1"}


# --- what was printed last


def lines(seen):
    return [text.decode() for item in seen if isinstance(item, LogLines) for text in item.texts]


def test_the_log_of_a_replica_that_has_ended_is_read_as_long_as_it_comes(monkeypatch):
    monkeypatch.setattr(following, "DRAIN_SECONDS", 2.0)
    seen = follow(events(0.2, ("MODIFIED", tfjob("Failed"))), events(), [pod("out of memory")], printed=8)
    assert lines(seen) == [f"line {number}" for number in range(8)]


def test_the_log_of_an_ended_replica_that_goes_on_for_ever_is_not_read_for_ever(monkeypatch):
    monkeypatch.setattr(following, "DRAIN_SECONDS", 2.0)
    monkeypatch.setattr(following, "DRAIN_LIMIT_SECONDS", 3.0)
    seen = follow(events(0.2, ("MODIFIED", tfjob("Failed"))), events(), [pod("out of memory")], printed=60)
    assert lines(seen)[-1] == "(log incomplete: its rest was not read: it still went on 3 s after the end of the job)"
    assert 4 <= len(lines(seen)) < 20


def test_a_server_that_asks_to_wait_with_the_last_lines_is_waited_for(monkeypatch):
    monkeypatch.setattr(following, "DRAIN_SECONDS", 1.0)
    busy = [refusal(429, "TooManyRequests", **{"Retry-After": "2"})]
    seen = follow(events(0.2, ("MODIFIED", tfjob("Failed"))), events(), [pod("out of memory")], printed=2, refuse=busy)
    assert lines(seen) == ["line 0", "line 1"]
    assert not busy


def test_the_log_of_a_replica_that_runs_on_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(following, "DRAIN_SECONDS", 2.0)
    seen = follow(events(0.2, ("MODIFIED", tfjob("Succeeded"))), events(), [pod("running")], printed=60)
    assert lines(seen)[-1] == "(log incomplete: its replica ran on)"
    assert len(lines(seen)) < 20
