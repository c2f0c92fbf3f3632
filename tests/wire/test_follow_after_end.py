"""A launcher that first sees a job after its end, as a `wait` that starts late does: what it records."""

import contextlib
import io
import time

import msgspec
import pytest

from tests.unit.systems.kubernetes.objects import condition, controller, pod, tfjob
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_job import events, listed
from tfsteps import spec
from tfsteps.kube.client import Api
from tfsteps.launcher.failure import failure_summary
from tfsteps.launcher.log_writer import LogWriter
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.recorder import Recorder
from tfsteps.runs.events import LogLines, ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems.jobs.job import JOB as JOB_LABEL
from tfsteps.systems.jobs.job import IndexedJobs
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow import following
from tfsteps.systems.kubernetes.follow.job import KubernetesJob
from tfsteps.systems.kubernetes.follow.job_object import REPLICAS
from tfsteps.systems.kubernetes.job_kind import Between
from tfsteps.systems.kubernetes.ownership import OwnerIndex
from tfsteps.systems.kubernetes.permissions import JOBS
from tfsteps.systems.kubernetes.query.status import job_pods, status

JOB = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {"replicas": 2}}})
SAID = "TFJob ns/job has failed because 1 Worker replica(s) failed."


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))


def at(second):
    return f"2026-01-01T00:00:{second:02d}Z"


def epoch(second):
    return 1767225600.0 + second


def end(code, started, finished, reason=""):
    reason = reason or ("Error" if code else "Completed")
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": at(started), "finishedAt": at(finished)}}


def container(state, restarts=0, last=None):
    return {"name": "tensorflow", "restartCount": restarts, "state": state, "lastState": last or {}}


def replica(name, uid, phase, *containers, created=1, status=None, **meta):
    item = pod({"phase": phase, "containerStatuses": list(containers), **(status or {})}, name, uid)
    item["metadata"] |= {"creationTimestamp": at(created), **meta}
    item["spec"] = {"restartPolicy": "Never", "nodeName": "node"}
    return item


def ended_job(kind, message=SAID):
    item = tfjob({**condition(kind, message=message), "lastTransitionTime": at(30)})
    template = {"spec": {"containers": [{"name": "tensorflow"}]}}
    item["spec"]["tfReplicaSpecs"] = {"Worker": {"replicas": 2, "template": template}}
    item["metadata"]["creationTimestamp"] = at(0)
    return item


RUNNING = {"running": {"startedAt": at(2)}}
OTHER = replica("worker-1", "p1", "Succeeded", container(end(0, 2, 8)))


def log(asked, logs):
    """Return what a container printed; a line's second is its time. `logs` are by pod, then by run, the newest last."""
    runs = logs.get(asked.path.split("/")[-2], [[]])
    if asked.query.get("previous") == "true":
        if len(runs) < 2:
            return refusal(400, "BadRequest")
        runs = runs[:-1]
    lines = [b"2026-01-01T00:00:%02d.5Z %b\n" % line for line in runs[-1]]
    return Answer(body=b"".join(lines[-int(asked.query.get("tailLines", 0)) :]))


def first_look(kind, item, pods, logs=(), *, refuse=0, gone=False):
    """Return what a launcher records of a job that it is told by name alone, as `wait` is, and its events.

    Args:
        kind: Of the job.
        item: The job object.
        pods: Its pods.
        logs: As `log` takes them.
        refuse: How many lists of the pods are answered 500 first.
        gone: Whether the job object is deleted.
    """
    refusals = [refusal(500)] * refuse

    def script(asked):
        if asked.path.endswith("/log"):
            return log(asked, dict(logs))
        if asked.path.endswith("/jobs") and kind.resource != JOBS:
            return refusal(403, "Forbidden")
        if "watch" in asked.query:
            return events()
        if asked.path.endswith("/pods"):
            return refusals.pop() if refusals else listed(*pods)
        if gone:
            return refusal(404, "NotFound", about="job") if asked.path.endswith("/job") else listed()
        return listed(item)

    who = Identity(run="r", task="t")
    attempt = AttemptFolder.of(who)
    attempt.folder.mkdir(parents=True)
    replicas = [ReplicaStatus(role="worker", index=i) for i in range(2)]
    seen, recorded = [], Status(identity=who, job="job", system=kind.name, replicas=replicas)
    known = {"metadata": {key: item["metadata"][key] for key in ("name", "uid", "namespace")}}
    with serve(script) as server, contextlib.closing(LogWriter(attempt.log)) as book:
        recorder = Recorder(recorded, attempt, book, [Printer(io.StringIO())])
        for event in KubernetesJob(Api(server.access()), kind, known, JOB, None).events():
            seen.append(event)
            recorder.apply(event)
        final = seen[-1]
        if final.state in (State.FAILED, State.LOST):
            recorded.failure = failure_summary(recorded, book.tails.last_lines, str(final.replica or ""))
    return recorded, seen


def shown(kind, item, pods):
    """Return what `tfsteps show` says of the same job."""
    job_status = status(
        kind, item, job_pods(kind, item, pods, OwnerIndex(None, "ns").owners(kind, item, [])), time.time()
    )
    if job_status.state is State.FAILED:
        job_status.failure = failure_summary(job_status, lambda *_: [])
    return job_status


def facts(job_status):
    failure_summary = job_status.failure and (
        job_status.failure.summary,
        job_status.failure.replica,
        job_status.failure.exit_code,
        job_status.failure.fault,
    )
    times = job_status.started, job_status.ended
    return (
        job_status.state,
        job_status.reason,
        job_status.message,
        times,
        failure_summary,
        msgspec.to_builtins(job_status.replicas),
    )


DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "lastTransitionTime": at(9),
}
NODE_PRESSURE = {"reason": "Evicted", "message": "low on memory", "conditions": [{"type": "Ready", "status": "False"}]}
NODE_PRESSURE["conditions"][0]["lastTransitionTime"] = at(6)
DELETED = {"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 30}
BLAMED = {
    "an exit code": ("worker-0", 5, "", [replica("worker-0", "p0", "Failed", container(end(5, 2, 9))), OTHER]),
    "the one that failed first, though the other is listed first": (
        "worker-1",
        5,
        "",
        [
            replica("worker-0", "p0", "Failed", container(end(143, 2, 12))),
            replica("worker-1", "p1", "Failed", container(end(5, 2, 9))),
        ],
    ),
    "in the same second, not the one that was being deleted": (
        "worker-1",
        5,
        "",
        [
            replica("worker-0", "p0", "Failed", container(end(143, 2, 10)), **DELETED),
            replica("worker-1", "p1", "Failed", container(end(5, 2, 10))),
        ],
    ),
    "memory": (
        "worker-0",
        137,
        "OOMKilled",
        [replica("worker-0", "p0", "Failed", container(end(137, 2, 9, "OOMKilled"))), OTHER],
    ),
    "evicted before its container started": (
        "worker-0",
        None,
        "Evicted",
        [
            replica("worker-0", "p0", "Failed", status=NODE_PRESSURE),
            replica("worker-1", "p1", "Failed", container(end(1, 2, 9))),
        ],
    ),
    "evicted by the API, and still being deleted": (
        "worker-0",
        143,
        "EvictionByEvictionAPI",
        [
            replica(
                "worker-0", "p0", "Failed", container(end(143, 2, 12)), status={"conditions": [DISRUPTED]}, **DELETED
            )
        ],
    ),
    "restarted in place before": (
        "worker-0",
        5,
        "",
        [replica("worker-0", "p0", "Failed", container(end(5, 12, 15), 2, end(137, 8, 10, "OOMKilled"))), OTHER],
    ),
    "its newest pod, though an older one is listed last": (
        "worker-0",
        5,
        "",
        [
            replica("worker-0", "new", "Failed", container(end(5, 12, 15)), created=11),
            replica("worker-0", "old", "Failed", container(end(137, 3, 10, "OOMKilled"), 1, end(4, 2, 3)), created=1),
            OTHER,
        ],
    ),
}


@pytest.mark.parametrize(("name", "code", "reason", "pods"), BLAMED.values(), ids=BLAMED)
def test_a_replica_that_failed_before_the_first_look(name, code, reason, pods):
    item = ended_job("Failed")
    recorded, seen = first_look(TFJob(), item, pods)
    assert facts(recorded) == facts(shown(TFJob(), item, pods))
    assert (str(seen[-1].replica), recorded.failure.replica, recorded.failure.exit_code) == (name, name, code)
    blamed = next(entry for entry in recorded.replicas if entry.name == name)
    assert (blamed.incarnations[-1].exit_code, blamed.incarnations[-1].reason) == (code, reason)
    assert recorded.message == SAID
    assert recorded.ended == epoch(30)


def test_its_times_are_those_of_its_container():
    pods = BLAMED["an exit code"][-1]
    recorded, _ = first_look(TFJob(), ended_job("Failed"), pods)
    incarnations = [incarnation for item in recorded.replicas for incarnation in item.incarnations]
    assert [(incarnation.started, incarnation.ended) for incarnation in incarnations] == [
        (epoch(2), epoch(9)),
        (epoch(2), epoch(8)),
    ]
    assert recorded.started == epoch(2)


def test_its_restarts_are_counted_and_the_last_end_before_is_known():
    recorded, _ = first_look(TFJob(), ended_job("Failed"), BLAMED["restarted in place before"][-1])
    worker = recorded.replicas[0]
    assert worker.restarts == 2
    assert [
        (incarnation.number, incarnation.exit_code, incarnation.reason, incarnation.ended)
        for incarnation in worker.incarnations
    ] == [
        (1, 137, "OOMKilled", epoch(10)),
        (2, 5, "", epoch(15)),
    ]


def test_restarts_in_place_of_an_earlier_pod_count():
    recorded, _ = first_look(
        TFJob(), ended_job("Failed"), BLAMED["its newest pod, though an older one is listed last"][-1]
    )
    worker = recorded.replicas[0]
    assert worker.restarts == 2
    assert [(incarnation.number, incarnation.exit_code) for incarnation in worker.incarnations] == [
        (0, 4),
        (1, 137),
        (2, 5),
    ]


def test_a_replica_that_the_operator_deleted_because_of_the_failure_is_stopped():
    recorded, _ = first_look(
        TFJob(), ended_job("Failed"), BLAMED["in the same second, not the one that was being deleted"][-1]
    )
    assert [item.state for item in recorded.replicas] == [ReplicaState.STOPPED, ReplicaState.FAILED]


# --- the message


def jobs(*, failed=True):
    """Return a job of plain Jobs, and what makes a pod one of its."""
    labels = {JOB_LABEL: "job", "tfsteps.dev/role": "worker"}
    meta = {"name": "job", "namespace": "ns", "uid": "u1", "labels": labels, "creationTimestamp": at(0)}
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": at(30)}
    spec = {"completions": 2, "backoffLimit": 0, "template": {"spec": {"containers": [{"name": "tensorflow"}]}}}
    return {"metadata": meta, "spec": spec, "status": {"conditions": [condition] if failed else []}}


def of_jobs(item, index):
    item["metadata"]["labels"] = {
        **jobs()["metadata"]["labels"],
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    item["metadata"]["ownerReferences"] = [controller("Job", api="batch/v1")]
    return item


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (end(5, 2, 9), "worker-0 failed with exit code 5."),
        (end(137, 2, 9, "OOMKilled"), "worker-0 failed with exit code 137 (OOMKilled)."),
    ],
)
def test_a_message_about_a_failed_replica_names_it_and_its_exit_code(state, message):
    pods = [of_jobs(replica("worker-0", "p0", "Failed", container(state)), 0)]
    recorded, _ = first_look(IndexedJobs(), jobs(), pods)
    assert (recorded.reason, recorded.message) == ("ReplicaFailed", message)
    assert shown(IndexedJobs(), jobs(), pods).message == message


GONE = {
    "all of them": ([], "worker-0, worker-1"),
    "one of them": ([OTHER], "worker-0"),
}


@pytest.mark.parametrize(("pods", "names"), GONE.values(), ids=GONE)
def test_missing_pods_are_reported(pods, names):
    item = ended_job("Failed")
    recorded, _ = first_look(TFJob(), item, pods)
    unknown = f"No pod is left of {names}, so it is not known which replica failed and with which exit code."
    assert recorded.message == recorded.failure.summary == f"{SAID} {unknown}"
    assert facts(recorded) == facts(shown(TFJob(), item, pods))


def test_pods_whose_owner_cannot_be_looked_up_are_not_reported_as_missing(monkeypatch):
    monkeypatch.setattr(TFJob, "between", [Between(JOBS)])
    other = replica("worker-0", "p0", "Failed", container(end(5, 2, 9)))
    other["metadata"]["ownerReferences"] = [controller("Job", "between", "batch/v1", "a")]
    recorded, _ = first_look(TFJob(), ended_job("Failed"), [other])
    assert "No pod is left" not in recorded.message
    unknown = "Pod job-worker-0 may not be this job's, and is not followed: Job a, which controls it, could not be"
    assert recorded.message.startswith(f"{SAID} {unknown} looked up: ")


def test_pods_that_cannot_be_listed_are_not_reported_as_missing(monkeypatch):
    monkeypatch.setattr(following, "DRAIN_SECONDS", 0.5)
    recorded, seen = first_look(TFJob(), ended_job("Failed"), [], refuse=99)
    assert recorded.message == SAID
    assert any(b"no log before the end" in event.texts[0] for event in seen if isinstance(event, LogLines))


def test_pods_that_are_listed_only_at_the_second_try_are_waited_for():
    pods = BLAMED["an exit code"][-1]
    recorded, _ = first_look(TFJob(), ended_job("Failed"), pods, {"job-worker-0": [[(8, b"bye")]]}, refuse=2)
    assert (recorded.failure.replica, recorded.failure.exit_code, recorded.failure.tail) == ("worker-0", 5, ["bye"])


# --- other ends


@pytest.mark.parametrize("pods", [[], [replica("worker-0", "p0", "Succeeded", container(end(0, 3, 9))), OTHER]])
def test_a_job_that_succeeded_before_the_first_look(pods):
    item = ended_job("Succeeded", "")
    recorded, _ = first_look(TFJob(), item, pods)
    assert facts(recorded) == facts(shown(TFJob(), item, pods))
    state = ReplicaState.SUCCEEDED if pods else ReplicaState.UNKNOWN
    assert [entry.state for entry in recorded.replicas] == [state] * 2
    assert (recorded.state, recorded.ended) == (State.SUCCEEDED, epoch(30))
    assert recorded.started == (epoch(3) if pods else None)


def test_a_job_whose_pods_its_launcher_has_deleted_after_noting_their_states():
    item = ended_job("Succeeded", "")
    annotations = {REPLICAS: '{"succeeded":{"worker":[[0,0]]},"stopped":{"worker":[[1,1]]}}'}
    item["metadata"] = {**item["metadata"], "annotations": annotations}
    recorded, _ = first_look(TFJob(), item, [])
    assert facts(recorded) == facts(shown(TFJob(), item, []))
    assert [entry.state for entry in recorded.replicas] == [ReplicaState.SUCCEEDED, ReplicaState.STOPPED]
    assert [entry.incarnations for entry in recorded.replicas] == [[], []], "their times are not known"


def test_a_job_that_was_deleted_before_the_first_look():
    began = time.time()
    recorded, _ = first_look(TFJob(), ended_job("Failed"), [], gone=True)
    assert (recorded.state, recorded.reason) == (State.LOST, "Deleted")
    assert [item.state for item in recorded.replicas] == [ReplicaState.UNKNOWN] * 2
    assert recorded.ended >= began


# --- the last lines


def test_the_last_lines_are_those_of_the_incarnation_that_failed():
    pods = BLAMED["restarted in place before"][-1]
    logs = {"job-worker-0": [[(9, b"ValueError: of the one before")], [(13, b"step 1"), (14, b"bye")]]}
    recorded, seen = first_look(TFJob(), ended_job("Failed"), pods, logs)
    assert recorded.failure.tail == ["step 1", "bye"]
    lines = {text: event.incarnation for event in seen if isinstance(event, LogLines) for text in event.texts}
    assert lines == {b"ValueError: of the one before": 1, b"step 1": 2, b"bye": 2}


def test_an_incarnation_that_printed_nothing_is_not_given_the_lines_of_the_one_before():
    pods = BLAMED["restarted in place before"][-1]
    recorded, _ = first_look(TFJob(), ended_job("Failed"), pods, {"job-worker-0": [[(9, b"of the one before")], []]})
    assert (recorded.failure.exit_code, recorded.failure.tail) == (5, [])


def test_lines_of_an_earlier_pod_are_not_those_of_the_one_that_failed():
    old, new = (
        replica("worker-0", uid, "Failed", container(end(code, second, second + 5)), created=second)
        for uid, code, second in (("p0", 137, 2), ("p2", 5, 12))
    )
    old["metadata"]["name"], new["metadata"]["name"] = "job-worker-0-zz", "job-worker-0-aa"
    logs = {"job-worker-0-zz": [[(3, b"of the old pod")]], "job-worker-0-aa": [[(13, b"bye")]]}
    recorded, _ = first_look(TFJob(), ended_job("Failed"), [new, old, OTHER], logs)
    assert (recorded.failure.exit_code, recorded.failure.tail) == (5, ["bye"])
