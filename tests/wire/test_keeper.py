"""A job that is kept for a retry of its run: what the launcher of an evicted pod asks, and the one that comes after."""

import contextlib
import hashlib
import pathlib
from types import SimpleNamespace

import pytest

from tests.support.waiting import until
from tests.unit.systems.kubernetes.objects import tfjob
from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.answer import NO, YES, known, unknown
from tfsteps.engines.argo import pipeline
from tfsteps.engines.registry import find_pipeline
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.watch import Listed
from tfsteps.runs.events import JobChanged, State
from tfsteps.runs.identity import Identity
from tfsteps.systems import stop_controller
from tfsteps.systems.base import Cause, LaunchError
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes import system
from tfsteps.systems.kubernetes.cleanup import keeper
from tfsteps.systems.kubernetes.cleanup.retention import KEPT_FOR_TRY, KEPT_UNTIL, owned_by_run, retention_policy
from tfsteps.systems.kubernetes.follow.following import Following
from tfsteps.systems.kubernetes.follow.job import KubernetesJob
from tfsteps.systems.kubernetes.system import KubernetesSystem
from tfsteps.systems.launcher_pod import LauncherPod
from tfsteps.systems.stop_controller import Detachment

JOB = {"name": "job", "image": "trainer:1", "roles": {"worker": {}}, "on_evicted": "29.5m"}
FLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}
OWNER = {**FLOW, "blockOwnerDeletion": False}
NAME = "job-kept-" + hashlib.sha256(f"{tfjob()['metadata']['uid']} p".encode()).hexdigest()[:10]
KEEPER = {"apiVersion": "batch/v1", "kind": "Job", "name": NAME, "uid": "k", "blockOwnerDeletion": False}
UNTIL = "2026-11-24T03:29:30+00:00"
DELETED = {"deletionTimestamp": "2126-11-24T03:00:00Z", "deletionGracePeriodSeconds": 30}
EVICTED = {"metadata": {"uid": "p", **DELETED}, "status": {}}
GRACE_SECONDS = 20.0
WHO = Identity(run="r", task="t")
RUNS = {"metadata": {"uid": "p"}, "status": {"phase": "Running"}}


def keeper_answers(**fields):
    meta = {"name": NAME, "uid": "k", "creationTimestamp": "2026-11-24T03:00:00Z"}
    return Answer(201, {"metadata": meta, "spec": {"suspend": False, **fields}})


class Cluster:
    """A server with one job, and the pod of its launcher.

    Attributes:
        job: The job object; None = it was deleted.
        pod: The launcher's pod.
        keeper: The answer to who makes a keeper; a list = the first answers, before it is made.
        patch: The answer to who changes the job; None = it is changed; a list = the first answers, before that.
        changes: (method, plural, body) of all requests that change anything.
    """

    def __init__(self, pod=EVICTED, keeper=None, patch=None):
        self.job, self.pod = tfjob("Running"), pod
        self.keeper, self.patch = keeper or keeper_answers(), patch
        self.job["metadata"]["ownerReferences"] = [OWNER]
        self.changes = []

    def __call__(self, asked):
        if "/events" in asked.path:
            return Answer(body={"metadata": {"resourceVersion": "1"}, "items": []})
        plural = next(plural for plural in ("tfjobs", "jobs", "pods", "workflows") if f"/{plural}" in asked.path)
        if asked.method != "GET":
            self.changes.append((asked.method, plural, asked.body))
            return self.change(asked, plural)
        if asked.path.endswith("/pods/step") or "/tfjobs/" in asked.path:
            item = self.pod if plural == "pods" else self.job
            return Answer(body=item) if item else refusal(404, "NotFound", about="job")
        if "watch" in asked.query:
            return Answer(parts=[0.3])
        items = [self.job] if self.job and plural == "tfjobs" else []
        if asked.query.get("fieldSelector") == "metadata.name=step":
            self.pod["metadata"] |= {"name": "step", "resourceVersion": "1"}
            items = [self.pod]
        return Answer(body={"metadata": {"resourceVersion": "1"}, "items": items})

    def change(self, asked, plural):
        faults = {"POST": self.keeper, "PATCH": self.patch}.get(asked.method)
        if isinstance(faults, list) and faults:
            return faults.pop(0)
        if asked.method == "POST":
            return keeper_answers() if isinstance(self.keeper, list) else self.keeper
        if asked.method == "PATCH":
            of_pod = Answer(body={}) if plural == "pods" else None  # its label
            gone = None if self.job else refusal(404, "NotFound", about="job")
            return of_pod or self.patch or gone or Answer(body=self.changed(asked.body["metadata"]))
        self.job = None if plural == "tfjobs" else self.job
        return Answer(body={})

    def changed(self, meta):
        noted = {**(self.job["metadata"].get("annotations") or {}), **meta["annotations"]}
        noted = {key: value for key, value in noted.items() if value is not None}
        owners = meta["ownerReferences"]
        self.job = {**self.job, "metadata": {**self.job["metadata"], "ownerReferences": owners, "annotations": noted}}
        return self.job


def host_of(server, *, recreated=NO, terminating=False):
    """Return a launcher's pod, a step of a Workflow that is not watched."""
    meta = {"name": "step", "namespace": "ns", "uid": "p", "ownerReferences": [{**FLOW, "controller": True}]}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pipeline, "Watch", lambda *_, **__: SimpleNamespace(refused_seconds=0.0))
        pod = LauncherPod.of(Api(server.access(), patience=0), {"metadata": meta}, find_pipeline)
    pod.pipeline.recreates_pod, pod.pipeline.terminating = recreated, known(terminating)
    pod.pipeline.pending, pod.grace_seconds = NO, GRACE_SECONDS
    return pod


PIPELINE = ("recreated", "terminating")


def follower(server, **fields):
    """Return a followed job, with fields of `host_of` and of its job file."""
    host = host_of(server, **{name: fields.pop(name) for name in PIPELINE if name in fields})
    job = spec.from_plain({**JOB, **fields})
    return KubernetesJob(Api(server.access()), TFJob(), tfjob("Running"), job, host)


def stopped(cluster, cause=Cause.CANCELLED, *, then=(), **fields):
    """Stop a job as a signal does, and `then` again; return its last event, or why it was left."""
    with serve(cluster) as server:
        job = follower(server, **fields)
        for item in (cause, *then):
            job.stop(item)
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
    assert keeper[1]["metadata"]["name"] == NAME
    asked, meta = keeper[1]["spec"], keeper[1]["metadata"]
    assert (asked["activeDeadlineSeconds"], asked["ttlSecondsAfterFinished"], asked["parallelism"]) == (1770, 0, 0)
    assert meta["ownerReferences"] == [OWNER], "who deletes the run deletes keeper and job"
    assert meta["labels"] == {"app.kubernetes.io/managed-by": "tfsteps"}, "it is no training job"
    uid = tfjob()["metadata"]["uid"]
    assert change[1]["metadata"] == {"uid": uid, "ownerReferences": [KEEPER], "annotations": {KEPT_UNTIL: UNTIL}}


def test_a_job_is_kept_before_the_sigterm_that_leaves_no_time_for_it():
    """The API server knows earlier than the launcher's container that the pod is being deleted."""
    cluster = Cluster()
    with serve(cluster) as server:
        job = follower(server, recreated=MAYBE)
        events = job.events()
        until(lambda: next(events) and cluster.job["metadata"]["ownerReferences"] == [KEEPER])
        for _ in range(5):
            next(events)  # the engine decides by how the step ends: it is SIGTERM that ends it
        job.stop(Cause.CANCELLED)
        with pytest.raises(LaunchError, match="this pod is being evicted; the job is kept until"):
            list(events)
        for api in (job._api, job._host._api):
            api.stopping.set()
    assert [(method, plural) for method, plural, _ in cluster.changes] == [("POST", "jobs"), ("PATCH", "tfjobs")]


def test_a_job_that_ends_with_its_launcher_is_deleted_at_sigterm_without_another_question():
    cluster, questions = Cluster(), []

    def script(asked):
        if asked.path.endswith("/pods/step"):
            questions.append(asked.path)
        return cluster(asked)

    with serve(script) as server:
        job = follower(server, on_evicted="stop")
        events = job.events()
        until(lambda: next(events) and job._host._deleting)
        for _ in range(5):
            next(events)
        assert cluster.changes == []
        job.stop(Cause.CANCELLED)
        assert [method for method, _, _ in cluster.changes] == ["DELETE"]
        assert questions == []
        assert [event for event in events if isinstance(event, JobChanged)][-1].state is State.CANCELLED
        for api in (job._api, job._host._api):
            api.stopping.set()


@pytest.mark.parametrize(
    ("on_evicted", "changes"),
    [("29.5m", [("POST", "jobs"), ("PATCH", "tfjobs")]), ("stop", [("DELETE", "tfjobs")])],
)
def test_a_launcher_whose_sigterm_is_lost_settles_what_becomes_of_its_job_before_it_is_killed(
    on_evicted, changes, monkeypatch
):
    monkeypatch.setattr(stop_controller, "_SIGNAL_SECONDS", 0.5)
    cluster = Cluster()
    with serve(cluster) as server:
        job = follower(server, on_evicted=on_evicted)
        kept = pytest.raises(LaunchError, match="the job is kept until")
        with kept if on_evicted != "stop" else contextlib.nullcontext():
            end = [event for event in job.events() if isinstance(event, JobChanged)][-1]
            assert (end.state, "SIGTERM did not come" in end.message) == (State.CANCELLED, True)
        for api in (job._api, job._host._api):
            api.stopping.set()
    assert [change[:2] for change in cluster.changes] == changes


DELETION = {"type": "DELETED", "object": {"metadata": {"name": "step", "uid": "p", "resourceVersion": "2"}}}
OWN_POD = "metadata.name=step"


@pytest.mark.parametrize(
    "first",
    [
        refusal(403, "Forbidden", "RBAC is not ready"),
        Answer(body={"metadata": {"resourceVersion": "1"}, "items": []}),
        Answer(parts=[DELETION]),
    ],
    ids=["the first list is refused", "gone before", "gone at once"],
)
def test_the_deletion_of_the_own_pod_is_seen_however_it_comes(first, monkeypatch):
    monkeypatch.setattr(stop_controller, "_SIGNAL_SECONDS", 0.5)

    def script(asked):
        if asked.path.endswith("/pods/step"):
            return refusal(404, "NotFound", about="step")
        if asked.query.get("fieldSelector") == OWN_POD and bool(first.parts) == ("watch" in asked.query) and answers:
            return answers.pop()
        return cluster(asked)

    answers, cluster = [first], Cluster(pod=EVICTED if first.status == 403 else RUNS)
    with serve(script) as server:
        job = follower(server)
        job._host._api.patience = 60.0
        with pytest.raises(LaunchError, match="the job is kept until"):
            list(job.events())
        for api in (job._api, job._host._api):
            api.stopping.set()


def test_a_launcher_that_may_not_watch_its_own_pod_says_so():
    cluster = Cluster(pod=RUNS)
    refused = refusal(403, "Forbidden", "you may not list pods")
    with serve(lambda asked: refused if asked.query.get("fieldSelector") == OWN_POD else cluster(asked)) as server:
        job = follower(server)
        events = job.events()
        until(lambda: next(events) and job.warnings)
        assert "cannot watch its own pod ns/step" in job.warnings[0]
        assert "you may not list pods" in job.warnings[0]
        job._api.stopping.set()


@pytest.mark.parametrize("signal", [True, False])
def test_a_deletion_that_fails_is_reported_before_the_launcher_is_killed(signal, monkeypatch):
    cluster = Cluster()

    class Failing:
        what, refused, ended, ends_with_launcher = "TFJob a", "it could not be deleted", False, True

        def send_stop(self, _client):
            raise ApiError("come later", 503)

        def begin_stop(self, _sentence):
            """Do nothing."""

        def detach(self, _cluster, _since):
            return Detachment(NO)

    now = [100.0]
    monkeypatch.setattr(stop_controller.time, "monotonic", lambda: now[0])
    clients = stop_controller.Clients(cluster, cluster)
    stop = stop_controller.StopController(Failing(), {Cause.CANCELLED: 20.0}, 25.0)
    stop.expect(clients, 30.0)
    if signal:
        stop.request(Cause.CANCELLED, clients)

    def until_killed():
        while now[0] < 126:
            stop.continue_stop(clients, None)
            now[0] += 0.25

    with pytest.raises(LaunchError, match="it could not be deleted: come later"):
        until_killed()


@pytest.mark.parametrize("handled", [True, False], ids=["SIGTERM", "no signal"])
def test_a_run_that_ends_after_its_job_was_kept_takes_the_job_along(handled):
    """Of a deleted Workflow, the pods may be seen to go first."""
    cluster = Cluster()
    with serve(cluster) as server:
        job = follower(server)
        events = job.events()
        until(lambda: next(events) and cluster.job["metadata"]["ownerReferences"] == [KEEPER])
        job._host.pipeline.terminating = YES
        if handled:
            job.stop(Cause.CANCELLED)
            assert cluster.changes[-1][:2] == ("DELETE", "tfjobs"), "there is no time to wait for the loop"
        assert [event for event in events if isinstance(event, JobChanged)][-1].state is State.CANCELLED
        assert [method for method, _, _ in cluster.changes[:3]] == ["POST", "PATCH", "DELETE"]
        assert cluster.job is None
        for api in (job._api, job._host._api):
            api.stopping.set()


UNKEPT = {
    "no right": (Cluster(keeper=refusal(403, "Forbidden", "you may not make jobs")), "you may not make jobs"),
    "a quota": (Cluster(keeper=refusal(403, "Forbidden", "exceeded quota")), "exceeded quota"),
    "Kueue": (Cluster(keeper=keeper_answers(suspend=True)), "suspended by an admission webhook"),
    "the job cannot be given to it": (Cluster(patch=refusal(403, "Forbidden", "not the owner")), "not the owner"),
}


@pytest.mark.parametrize(("cluster", "why"), UNKEPT.values(), ids=UNKEPT)
def test_a_job_that_cannot_be_kept_is_deleted_and_the_message_gives_the_reason(cluster, why, monkeypatch):
    monkeypatch.setattr(keeper, "SETTLE_SECONDS", 0.0)
    end = stopped(cluster)
    assert (end.state, cluster.job) == (State.CANCELLED, None)
    assert "could not be kept for a retry" in end.message
    assert why in end.message


ODD = Answer(201, {"metadata": {"name": NAME, "uid": "k"}})
LATE = refusal(503, "", "come later")
FAULTS = {
    "503": (LATE, "come later"),
    "429": (refusal(429, "TooManyRequests", "slow down"), "slow down"),
    "reset": ("reset", "cannot be reached"),
    "another shape": (ODD, ""),
    "403": (refusal(403, "Forbidden", "RBAC is not ready"), "RBAC is not ready"),
}


@pytest.mark.parametrize(("answer", "why"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("which", ["keeper", "patch"])
def test_one_failed_request_for_the_keeper_is_repeated(which, answer, why, monkeypatch):
    monkeypatch.setattr(stop_controller, "_PAUSE_SECONDS", 0.05)
    cluster = Cluster(**{which: [answer]})
    assert f"the job is kept until {UNTIL}" in str(stopped(cluster))
    assert cluster.job["metadata"]["ownerReferences"] == [KEEPER]


@pytest.mark.parametrize(("answer", "why"), [*FAULTS.values()][:4], ids=[*FAULTS][:4])
@pytest.mark.parametrize("which", ["keeper", "patch"])
def test_a_job_of_which_it_is_not_known_whether_it_is_kept_continues(which, answer, why, monkeypatch):
    monkeypatch.setattr(stop_controller, "_PAUSE_SECONDS", 0.05)
    monkeypatch.setitem(globals(), "GRACE_SECONDS", 0.3)
    cluster = Cluster(**{which: [answer] * 99})
    left = stopped(cluster)
    assert left.retryable
    assert str(left).endswith("TFJob ns/job was not stopped")
    assert why in str(left)
    assert cluster.job is not None


def test_after_a_second_sigterm_one_more_question_is_asked_and_the_job_is_left(monkeypatch):
    monkeypatch.setattr(stop_controller, "_PAUSE_SECONDS", 0.05)
    cluster = Cluster(keeper=[LATE] * 9)
    left = stopped(cluster, then=[Cause.CANCELLED])
    assert str(left).endswith("TFJob ns/job was not stopped")
    assert [method for method, _, _ in cluster.changes] == ["POST"] * 2


def test_a_second_sigterm_at_once_is_no_reason_to_leave_a_job_of_a_pod_that_is_not_evicted():
    """Engines repeat SIGTERM; in the first second nothing shows yet that it is no eviction."""
    end = stopped(Cluster(pod=RUNS), recreated=YES, then=[Cause.CANCELLED])
    assert end.state is State.CANCELLED


NOBODY = {"first": (Cause.INTERRUPTED, []), "after SIGTERM": (Cause.CANCELLED, [Cause.INTERRUPTED])}


@pytest.mark.parametrize(("cause", "then"), NOBODY.values(), ids=NOBODY)
def test_ctrl_c_ends_the_job_although_nothing_is_known_of_the_pod(cause, then):
    cluster = Cluster(pod={"metadata": {"uid": "p"}, "status": 7})
    assert stopped(cluster, cause, recreated=YES, then=then).state is State.CANCELLED
    assert cluster.job is None


def test_a_job_that_ends_while_it_is_not_known_why_the_launcher_is_stopped_has_ended(monkeypatch):
    monkeypatch.setitem(globals(), "GRACE_SECONDS", 0.0)
    with serve(Cluster(pod={"metadata": {"uid": "p"}, "status": 7})) as server:
        job = follower(server, recreated=YES)
        job.stop(Cause.CANCELLED)
        with pytest.raises(LaunchError, match="was not stopped"):
            job._stop.continue_stop(job._clients, None)
        list(job._tracker.job(Listed([tfjob("Succeeded")]), 0.0))
        job._stop.continue_stop(job._clients, None)
        assert job._stop.cause is None
        job._api.stopping.set()


@pytest.mark.parametrize("refused", [False, True])
def test_a_launch_step_gives_an_adopted_job_its_owner_back(refused, monkeypatch):
    """It does not follow the job, which its keeper would delete before a wait step comes."""
    cluster = Cluster(patch=refusal(503) if refused else None)
    with serve(cluster) as server:
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        monkeypatch.setattr(system, "REPORT_SECONDS", 0.5)
        launching = KubernetesSystem(TFJob())
        launching._host = follower(server)._host
        job, paths = spec.from_plain(JOB), launching.output_paths(spec.from_plain(JOB), WHO, pathlib.Path())
        metadata = launching._rendered(job, WHO, paths, "ns").manifest["metadata"]
        noted = {**metadata["annotations"], KEPT_UNTIL: UNTIL}
        cluster.job["metadata"] |= {"name": metadata["name"], "annotations": noted, "ownerReferences": [KEEPER]}
        started = launching.start(job, WHO, paths)
        assert (cluster.job["metadata"]["ownerReferences"] == [OWNER]) is not refused
        assert started.warnings == []
        launching._api.stopping.set()


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
    assert "the next attempt adopts it" in str(stopped(cluster, recreated=YES))
    assert cluster.changes == []


MAYBE = unknown("the retryPolicy is OnError")


@pytest.mark.parametrize(("asked", "seconds"), [("stop", 600), ("29.5m", 1770)])
def test_a_job_that_another_pod_may_follow_is_kept_for_it(asked, seconds):
    cluster = Cluster()
    left = stopped(cluster, recreated=MAYBE, on_evicted=asked)
    assert str(left).endswith("for another try of the step")
    assert cluster.changes[0][2]["spec"]["activeDeadlineSeconds"] == seconds
    assert cluster.job["metadata"]["ownerReferences"] == [KEEPER]
    assert retention_policy(cluster.job).kept_for_try is (asked == "stop"), "it is for the run what the user asked for"
    owner = OWNER if asked == "stop" else KEEPER
    assert owned_by_run(cluster.job)["metadata"]["ownerReferences"] == [owner], "by which the janitor finds the run"


def test_a_job_that_another_pod_may_follow_continues_if_it_cannot_be_kept(monkeypatch):
    monkeypatch.setattr(keeper, "SETTLE_SECONDS", 0.0)
    cluster = Cluster(keeper=refusal(403, "Forbidden", "you may not make jobs"))
    left = stopped(cluster, recreated=MAYBE)
    assert "another try of the step may adopt it (the retryPolicy is OnError)" in str(left)
    assert cluster.job


NOT_OWNER = refusal(403, "Forbidden", "not the owner")


@pytest.mark.parametrize("patch", [None, [NOT_OWNER], NOT_OWNER], ids=["", "refused once", "refused"])
def test_who_adopts_a_kept_job_puts_its_owner_back_before_it_deletes_the_keeper(patch, monkeypatch):
    monkeypatch.setattr(keeper, "_PAUSE_SECONDS", 0.05)
    refused = patch is NOT_OWNER
    cluster = Cluster(pod=RUNS, patch=patch)
    cluster.job["metadata"] |= {"ownerReferences": [KEEPER], "annotations": {KEPT_UNTIL: UNTIL}}
    with serve(cluster) as server:
        job = follower(server)
        events = job.events()
        until(lambda: next(events) and len(cluster.changes) >= (4 if refused else 2 + bool(patch)))
        for _ in range(5):
            next(events)
        job._api.stopping.set()
    change = {"ownerReferences": [OWNER], "annotations": {KEPT_UNTIL: None, KEPT_FOR_TRY: None}}
    assert cluster.changes[0] == ("PATCH", "tfjobs", {"metadata": {"uid": tfjob()["metadata"]["uid"], **change}})
    if refused:
        assert len(cluster.changes) == 4, "then it will not be allowed later"
        assert "Kubernetes deletes it at the time it was kept until" in job.warnings[0]
        assert "not the owner" in job.warnings[0]
    else:
        method, plural, body = cluster.changes[-1]
        assert (method, plural, body["preconditions"]) == ("DELETE", "jobs", {"uid": "k"})
        assert cluster.job is not None


def test_a_job_that_was_created_before_its_pipeline_was_known_gets_it_as_its_owner_later(monkeypatch):
    """The own pod could not be read at the start; the keeper of a job is not replaced by no owner meanwhile."""
    monkeypatch.setattr(keeper, "_PAUSE_SECONDS", 0.05)
    cluster = Cluster(pod=RUNS, patch=[LATE])
    cluster.job["metadata"] |= {"ownerReferences": []}
    pods = [refusal(403, "Forbidden")] * 2

    def script(asked):
        if asked.path.endswith("/pods/step"):
            meta = {"name": "step", "namespace": "ns", "uid": "p", "ownerReferences": [{**FLOW, "controller": True}]}
            return pods.pop() if pods else Answer(body={"metadata": meta})
        return cluster(asked)

    with serve(script) as server:
        host = LauncherPod(Api(server.access()), "ns", "step", find_pipeline)
        job = KubernetesJob(Api(server.access()), TFJob(), tfjob("Running"), spec.from_plain(JOB), host)
        job.owner.needed = True
        events = job.events()
        until(lambda: next(events) and cluster.job["metadata"]["ownerReferences"] == [OWNER])
        job._api.stopping.set()
    assert [method for method, _, _ in cluster.changes] == ["PATCH", "PATCH"], "the first one had no answer"


def test_a_job_that_has_ended_is_kept_though_its_pipeline_ends_at_the_same_time(monkeypatch):
    cluster = Cluster(pod=RUNS)
    cluster.job = tfjob("Failed")
    with serve(cluster) as server:
        job = follower(server)
        looked = Following.next

        def look(following):
            yield from looked(following)
            job._host.pipeline.terminating = known(job.ended)

        monkeypatch.setattr(Following, "next", look)
        events = list(job.events())
    assert (events[-1].state, cluster.changes) == (State.FAILED, [])
