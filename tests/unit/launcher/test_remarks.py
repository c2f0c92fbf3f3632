"""What is said about a job that has succeeded."""

from tfsteps.launcher.failure import mixed_images, remarks
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Incarnation, ReplicaStatus, Status

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "t.py", line 9, in save',
    "RuntimeError: no checkpoint",
    "copying",
]


def remarks_on(*replicas, lines=()):
    listed = [
        ReplicaStatus(
            role=role, index=0, state=state, incarnations=[Incarnation(started=1, ended=2, state=state, exit_code=code)]
        )
        for role, state, code in replicas
    ]
    status = Status(
        identity=Identity(run="r", task="t"),
        job="j",
        system="local",
        state=State.SUCCEEDED,
        decisive_replica="worker-0",
        replicas=listed,
    )
    return list(remarks(status, lambda name, _: lines if name == "worker-0" else []))


def test_a_traceback_and_then_exit_code_0():
    (remark,) = remarks_on(("worker", ReplicaState.SUCCEEDED, 0), lines=TRACEBACK)
    assert remark.startswith(
        "worker-0 ended with exit code 0 after it had printed a traceback: RuntimeError: no checkpo"
    )


def test_a_replica_that_failed_although_the_job_succeeded():
    (remark,) = remarks_on(("worker", ReplicaState.SUCCEEDED, 0), ("evaluator", ReplicaState.FAILED, 1))
    assert remark == "evaluator-0 (exit code 1) failed. worker-0 decides the outcome: the job has succeeded without."


def test_nothing_is_said_of_an_ordinary_success():
    assert remarks_on(("worker", ReplicaState.SUCCEEDED, 0), ("ps", ReplicaState.STOPPED, 143), lines=["done"]) == []


def test_replicas_of_one_role_with_different_images():
    status = Status(identity=Identity(run="r", task="t"), job="j", system="jobset", state=State.FAILED)
    for index, digit in enumerate("aab"):
        incarnation = Incarnation(started=1, image=f"acme/mnist@sha256:{digit * 64}")
        status.replicas.append(ReplicaStatus(role="worker", index=index, incarnations=[incarnation]))
    (remark,) = mixed_images(status)
    assert "worker ran different images: acme/mnist@sha256:aaaaaaaaaaaa, acme/mnist@sha256:bbbbbbbbbbbb." in remark
    status.replicas.pop()
    assert list(mixed_images(status)) == []
