"""The status of an attempt is saved, or the launcher says why it cannot be, and what helps."""

import contextlib

import pytest

from tfsteps.launcher.log_writer import LogWriter
from tfsteps.launcher.recorder import Recorder
from tfsteps.runs.events import JobChanged, ReplicaChanged, ReplicaName, ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems.base import LaunchError


@pytest.mark.parametrize(
    ("number", "text", "step"),
    [
        (28, "No space left on device", "free some space there"),
        (122, "Disk quota exceeded", "free some space there"),
        (13, "Permission denied", "give this user the permission"),
        (30, "Read-only file system", "make its file system writable"),
        (5, "Input/output error", "fix the cause and retry"),
    ],
)
def test_a_last_status_that_cannot_be_saved_is_an_error_that_names_the_cause(monkeypatch, tmp_path, number, text, step):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    identity = Identity(run="r", task="t")
    attempt = AttemptFolder.of(identity)

    def write(*_args, **_options):
        raise OSError(number, text, "status.json")

    with attempt.claim(), contextlib.closing(LogWriter(attempt.log)) as logbook:
        recorder = Recorder(Status(identity=identity, job="j", system="local", created=0.0), attempt, logbook, [])
        monkeypatch.setattr(AttemptFolder, "write", write)
        with pytest.raises(LaunchError) as refusal:
            recorder.end(JobChanged(at=1.0, state=State.SUCCEEDED, reason="", message=""))
    assert str(refusal.value) == (
        f"the status (succeeded) cannot be saved: [Errno {number}] {text}: 'status.json'; {step}"
    )
    assert refusal.value.retryable


@pytest.mark.parametrize(
    ("end", "state"), [(State.FAILED, "stopped"), (State.SUCCEEDED, "stopped"), (State.LOST, "unknown")]
)
def test_a_replica_that_never_started_is_not_pending_after_the_end(monkeypatch, tmp_path, end, state):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    status = Status(identity=Identity(run="r", task="t"), job="j", system="local", created=0.0)
    status.replicas = [ReplicaStatus(role="chief", index=0), ReplicaStatus(role="worker", index=0)]
    attempt = AttemptFolder.of(status.identity)
    with attempt.claim(), contextlib.closing(LogWriter(attempt.log)) as logbook:
        recorder = Recorder(status, attempt, logbook, [])
        name = ReplicaName("chief", 0)
        recorder.apply(ReplicaChanged(at=1.0, replica=name, state=ReplicaState.FAILED))
        recorder.end(JobChanged(at=2.0, state=end, reason="", message=""))
    assert [replica.state for replica in attempt.status().replicas] == ["failed", state]
