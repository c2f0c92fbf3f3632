"""A job that is kept for a retry of its run: what the launcher of an evicted pod asks, and the one that comes after."""

import pytest

from tests.support.waiting import until
from tests.unit.systems.kubernetes.objects import tfjob
from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.engines.argo import pipeline
from tfsteps.engines.registry import find_pipeline
from tfsteps.kube.client import Api
from tfsteps.runs.events import JobChanged, State
from tfsteps.systems.base import Cause, LaunchError
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.cleanup.retention import KEPT_UNTIL
from tfsteps.systems.kubernetes.follow.job import KubernetesJob
from tfsteps.systems.kubernetes.launcher_pod import LauncherPod

JOB = {"name": "job", "image": "trainer:1", "roles": {"worker": {}}, "on_evicted": "29.5m"}
FLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}
OWNER = {**FLOW, "blockOwnerDeletion": False}
KEEPER = {"apiVersion": "batch/v1", "kind": "Job", "name": "job-kept-x", "uid": "k", "blockOwnerDeletion": False}
UNTIL = "2026-11-24T03:29:30+00:00"
EVICTED = {"metadata": {"uid": "p", "deletionTimestamp": "2026-11-24T03:00:00Z"}, "status": {}}
RUNS = {"metadata": {"uid": "p"}, "status": {"phase": "Running"}}


def made(**fields):
    meta = {"name": "job-kept-x", "uid": "k", "creationTimestamp": "2026-11-24T03:00:00Z"}
    return Answer(201, {"metadata": meta, "spec": {"suspend": False, **fields}})


class Cluster:
    """A server with one job, and the pod of its launcher.

    Attributes:
        job: The job object; None = it was deleted.
        pod: The launcher's pod.
        keeper: The answer to who makes a keeper.
        patch: The answer to who changes the job; None = it is changed.
        changes: (method, plural, body) of all requests that change anything.
    """

    def __init__(self, pod=EVICTED, keeper=None, patch=None):
        self.job, self.pod, self.keeper, self.patch = tfjob("Running"), pod, keeper or made(), patch
        self.job["metadata"]["ownerReferences"] = [OWNER]
        self.changes = []

    def __call__(self, asked):
        plural = next(plural for plural in ("tfjobs", "jobs", "pods") if f"/{plural}" in asked.path)
        if asked.method != "GET":
            self.changes.append((asked.method, plural, asked.body))
            return self.change(asked, plural)
        if asked.path.endswith(("/pods/step", "/tfjobs/job")):
            item = self.pod if plural == "pods" else self.job
            return Answer(body=item) if item else refusal(404, "NotFound", about="job")
        if "watch" in asked.query:
            return Answer(parts=[0.3])
        items = [self.job] if self.job and plural == "tfjobs" else []
        return Answer(body={"metadata": {"resourceVersion": "1"}, "items": items})

    def change(self, asked, plural):
        if asked.method == "POST":
            return self.keeper
        if asked.method == "PATCH":
            return self.patch or Answer(body=self.changed(asked.body["metadata"]))
        self.job = None if plural == "tfjobs" else self.job
        return Answer(body={})

    def changed(self, meta):
        noted = {**(self.job["metadata"].get("annotations") or {}), **meta["annotations"]}
        noted = {key: value for key, value in noted.items() if value is not None}
        owners = meta["ownerReferences"]
        self.job = {**self.job, "metadata": {**self.job["metadata"], "ownerReferences": owners, "annotations": noted}}
        return self.job


def follower(server, *, recreated=False, terminating=False, **fields):
    """Return a followed job, whose launcher is a step of a Workflow that is not watched."""
    meta = {"name": "step", "namespace": "ns", "uid": "p", "ownerReferences": [{**FLOW, "controller": True}]}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pipeline, "Watch", lambda *_, **__: None)
        pod = LauncherPod(Api(server.access(), patience=0), {"metadata": meta}, find_pipeline)
    pod.pipeline.recreates_pod, pod.pipeline.terminating = recreated, terminating
    job = spec.from_plain({**JOB, **fields})
    return KubernetesJob(Api(server.access()), TFJob(), tfjob("Running"), job, pod)


def stopped(cluster, **fields):
    """Stop a job as SIGTERM does; return its last event, or why it was left."""
    with serve(cluster) as server:
        job = follower(server, **fields)
        job.stop(Cause.CANCELLED)
        try:
            return [event for event in job.events() if isinstance(event, JobChanged)][-1]
        except LaunchError as error:
            return error
        finally:
            job._api.stopping.set()


def test_an_evicted_launcher_makes_the_keeper_and_then_gives_it_the_job():
    cluster = Cluster()
    left = stopped(cluster)
    assert str(left) == f"this pod is being evicted; the job is kept until {UNTIL} for a retry of the run"
    assert left.retryable
    (made_first, *keeper), (then, *change) = cluster.changes
    assert (made_first, keeper[0], then, change[0]) == ("POST", "jobs", "PATCH", "tfjobs")
    asked, meta = keeper[1]["spec"], keeper[1]["metadata"]
    assert (asked["activeDeadlineSeconds"], asked["ttlSecondsAfterFinished"], asked["parallelism"]) == (1770, 0, 0)
    assert meta["ownerReferences"] == [OWNER], "who deletes the run deletes keeper and job"
    assert meta["labels"] == {"app.kubernetes.io/managed-by": "tfsteps"}, "it is no training job"
    own = tfjob()["metadata"]["uid"]
    assert change[1]["metadata"] == {"uid": own, "ownerReferences": [KEEPER], "annotations": {KEPT_UNTIL: UNTIL}}


UNKEPT = {
    "no right": (Cluster(keeper=refusal(403, "Forbidden", "you may not make jobs")), "you may not make jobs"),
    "a quota": (Cluster(keeper=refusal(403, "Forbidden", "exceeded quota")), "exceeded quota"),
    "nobody answers": (Cluster(keeper=refusal(503, "", "come later")), "come later"),
    "Kueue": (Cluster(keeper=made(suspend=True)), "suspended by an admission webhook"),
    "an odd answer": (Cluster(keeper=Answer(201, {"metadata": {"name": "k", "uid": "k"}})), "spec"),
    "the job cannot be given to it": (Cluster(patch=refusal(403, "Forbidden", "not the owner")), "not the owner"),
}


@pytest.mark.parametrize(("cluster", "why"), UNKEPT.values(), ids=UNKEPT)
def test_a_job_that_cannot_be_kept_is_deleted_and_the_message_gives_the_reason(cluster, why):
    end = stopped(cluster)
    assert (end.state, cluster.job) == (State.CANCELLED, None)
    assert "could not be kept for a retry" in end.message
    assert why in end.message


DELETED = {
    "nothing is declared": (Cluster(), {"on_evicted": "stop"}),
    "the run is terminated": (Cluster(), {"terminating": True}),
    "its step alone is stopped": (Cluster(pod=RUNS), {}),
}


@pytest.mark.parametrize(("cluster", "fields"), DELETED.values(), ids=DELETED)
def test_who_is_not_evicted_deletes_the_job_and_makes_nothing(cluster, fields):
    assert stopped(cluster, **fields).state is State.CANCELLED
    assert [(method, plural) for method, plural, _ in cluster.changes] == [("DELETE", "tfjobs")]


def test_a_job_that_another_pod_follows_needs_no_keeper():
    cluster = Cluster()
    assert "the next attempt adopts it" in str(stopped(cluster, recreated=True))
    assert cluster.changes == []


@pytest.mark.parametrize("patch", [None, refusal(403, "Forbidden", "not the owner")], ids=["", "refused"])
def test_who_adopts_a_kept_job_puts_its_owner_back_before_it_deletes_the_keeper(patch):
    cluster = Cluster(patch=patch)
    cluster.job["metadata"] |= {"ownerReferences": [KEEPER], "annotations": {KEPT_UNTIL: UNTIL}}
    with serve(cluster) as server:
        job = follower(server)
        events = job.events()
        until(lambda: next(events) and len(cluster.changes) >= (1 if patch else 2))
        for _ in range(5):
            next(events)
        job._api.stopping.set()
    change = {"ownerReferences": [OWNER], "annotations": {KEPT_UNTIL: None}}
    assert cluster.changes[0] == ("PATCH", "tfjobs", {"metadata": {"uid": tfjob()["metadata"]["uid"], **change}})
    if patch:
        assert len(cluster.changes) == 1, "asked once: it will not be allowed later"
        assert "Kubernetes deletes it at the time it was kept until" in job.warnings[0]
        assert "not the owner" in job.warnings[0]
    else:
        method, plural, body = cluster.changes[1]
        assert (method, plural, body["preconditions"]) == ("DELETE", "jobs", {"uid": "k"})
        assert cluster.job is not None
