"""Which replica was silent when a deadline passed."""

from tfsteps.launcher.deadlines import silence
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Incarnation, ReplicaStatus, Status

R, S = ReplicaState.RUNNING, ReplicaState.SUCCEEDED


def status(*replicas):
    listed = [
        ReplicaStatus(role=role, index=i, state=state, incarnations=[Incarnation(started=100.0, state=state, number=2)])
        for i, (role, state) in enumerate(replicas)
    ]
    return Status(identity=Identity(run="r", task="t"), job="j", system="local", replicas=listed)


def test_the_one_that_was_silent_longest_is_named_with_its_last_line():
    report = silence(
        status(("worker", R), ("worker", R)), {"worker-0": (150.0, "a"), "worker-1": (110.0, "b")}, 160.0, 10
    )
    assert report.sentence("t.py:3 in f") == (
        "worker-1 printed nothing for 50 s; it stood at t.py:3 in f; its last line: b."
    )
    assert report.incarnation == 2


def test_one_without_any_output_was_silent_since_its_start():
    report = silence(status(("worker", R), ("worker", R)), {"worker-0": (150.0, "a")}, 160.0, 10)
    assert report.sentence("") == "worker-1 printed nothing for 60 s."


def test_nobody_is_named_who_printed_lately():
    assert silence(status(("worker", R)), {"worker-0": (155.0, "a")}, 160.0, 10).sentence("") == ""


def test_a_trainer_that_has_ended_is_named_but_not_beside_parameter_servers():
    report = silence(status(("worker", R), ("worker", S)), {}, 160.0, 10)
    assert "worker-1 had ended with exit code 0" in report.sentence("")
    assert not silence(status(("worker", R), ("worker", S), ("ps", R)), {}, 160.0, 10).early
