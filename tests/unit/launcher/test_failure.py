"""Why a job failed, from what is left of it."""

import msgspec
import pytest

from tfsteps.launcher.exit_codes import ExitCode, exit_code
from tfsteps.launcher.failure import failure_summary
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Incarnation, ReplicaStatus, Status

TRACEBACK = """\
step 3
Traceback (most recent call last):
  File "/app/train.py", line 41, in <module>
    main()
  File "/app/train.py", line 33, in main
    fit(x)
  File "/venv/lib/python3.11/site-packages/tensorflow/util.py", line 153, in error_handler
    raise e
ValueError: shapes (3,) and (4,) do not match.
bye""".splitlines()


def incarnation(ended, code, state=ReplicaState.FAILED, reason="", memory=None):
    return Incarnation(started=0, ended=ended, state=state, exit_code=code, reason=reason, memory_bytes=memory)


def printed(**lines):
    return lambda replica, _incarnation: lines.get(replica.replace("-", "_"), [])


def status(*replicas, reason="", message=""):
    listed = [
        ReplicaStatus(role="worker", index=i, incarnations=list(incarnations), restarts=len(incarnations) - 1)
        for i, incarnations in enumerate(replicas)
    ]
    return Status(
        identity=Identity(run="r", task="t"),
        job="j",
        system="local",
        state=State.FAILED,
        reason=reason,
        message=message,
        replicas=listed,
    )


@pytest.mark.parametrize(
    ("state", "reason"),
    [(State.FAILED, "DeadlineExceeded"), (State.FAILED, "Watchdog"), (State.FAILED, "MarkedFailed"), (State.LOST, "x")],
)
def test_what_failed_before_the_job_ended_otherwise_is_not_its_reason(state, reason):
    ended = status(
        [incarnation(5, 1), incarnation(9, 143, ReplicaState.STOPPED)], reason=reason, message="It ended otherwise."
    )
    ended.state = state
    found = failure_summary(ended, printed())
    assert found.summary.startswith("It ended otherwise. Before that, worker-0 failed with exit code 1 after 1 restart")


def test_the_first_to_fail_is_named_with_its_own_frame():
    found = failure_summary(
        status([incarnation(9, 1)], [incarnation(5, 1)]), printed(worker_1=TRACEBACK, worker_0=["x"])
    )
    assert (found.replica, found.exit_code) == ("worker-1", 1)
    assert found.exception == "ValueError: shapes (3,) and (4,) do not match"
    assert found.frame == "train.py:33 in main"
    assert found.summary == (
        "worker-1 failed with exit code 1: ValueError: shapes (3,) and (4,) do not match at train.py:33 in main."
    )
    assert found.tail == TRACEBACK
    assert found.fault == "user"


def test_the_deadline_that_ended_a_job_comes_before_what_failed_in_it():
    found = failure_summary(
        status([incarnation(5, 1)], reason="DeadlineExceeded", message="Deadline `total` passed."), printed()
    )
    assert found.summary == (
        "Deadline `total` passed. Before that, worker-0 failed with exit code 1: the program raised an error."
    )


@pytest.mark.parametrize("code", [137, 143])
def test_a_replica_that_a_deadline_killed_has_not_failed(code):
    killed = status([incarnation(5, code)], reason="DeadlineExceeded", message="It was active for too long")
    for blamed in ("", "worker-0"):
        found = failure_summary(killed, printed(), blamed)
        assert (found.summary, found.replica, found.exit_code) == ("It was active for too long", "", None)
        assert found.fault == "user"
    before = status([incarnation(5, code)], [incarnation(9, 1)], reason="DeadlineExceeded", message="Too long")
    assert failure_summary(before, printed()).summary.startswith(
        "Too long. Before that, worker-1 failed with exit code 1"
    )
    out_of_memory = status([incarnation(5, code, reason="OOMKilled")], reason="DeadlineExceeded", message="Too long")
    assert failure_summary(out_of_memory, printed()).replica == "worker-0"


def test_the_deletion_of_a_job_comes_before_the_pods_that_went_with_it():
    ended = status([incarnation(5, None, reason="PodDeleted")], reason="Deleted", message="Gone.")
    ended.state = State.LOST
    assert failure_summary(ended, printed()).summary.startswith("Gone. Before that, worker-0 failed: its pod was taken")


def test_the_one_that_the_system_blames_comes_first():
    assert (
        failure_summary(status([incarnation(5, 1)], [incarnation(9, 1)]), printed(), "worker-1").replica == "worker-1"
    )


@pytest.mark.parametrize(
    ("code", "reason", "meaning", "fault"),
    [
        (143, "EvictionByEvictionAPI", "its pod was taken away (EvictionByEvictionAPI)", "platform"),
        (None, "PodDeleted", "its pod was taken away (PodDeleted)", "platform"),
        (1, "", "the program raised an error", "user"),
        (3, "", "the program ended with an error", "user"),
        (127, "", "the command was not found", "user"),
        (137, "", "killed (SIGKILL): by somebody, or by the kernel for lack of memory", "platform"),
        (137, "OOMKilled", "killed for using more than its memory limit (peak 2.0 GiB)", "user"),
        (143, "", "ended (SIGTERM) by somebody", "platform"),
        (139, "", "crashed (SIGSEGV)", "user"),
        (136, "", "ended by signal 8", "user"),
        (1, "PeerLost", "the program raised an error", "platform"),
        (None, "", "its exit code is not known", "user"),
    ],
)
def test_exit_codes_and_who_is_to_blame(code, reason, meaning, fault):
    found = failure_summary(status([incarnation(5, code, reason=reason, memory=2 * 2**30)]), printed())
    assert (found.meaning, found.fault) == (meaning, fault)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("Evicted", ExitCode.PLATFORM),
        ("EvictionByEvictionAPI", ExitCode.PLATFORM),
        ("PreemptionByScheduler", ExitCode.PLATFORM),
        ("NodeLost", ExitCode.PLATFORM),
        ("NodeShutdown", ExitCode.PLATFORM),
        ("OOMKilled", ExitCode.FAILED),
        ("", ExitCode.FAILED),
    ],
)
def test_a_replica_that_the_platform_took_away_makes_the_step_one_to_try_again(reason, code):
    ended = status([incarnation(9, 1)], [incarnation(5, 137, reason=reason)], reason="TFJobFailed")
    ended.failure = failure_summary(ended, printed())
    assert exit_code(ended) is code
    ended.reason = "DeadlineExceeded"
    assert exit_code(ended) is ExitCode.DEADLINE


def test_a_lost_job_is_the_platforms_fault():
    lost = msgspec.structs.replace(status([]), state=State.LOST)
    assert (failure_summary(lost, printed()).fault, exit_code(lost)) == ("platform", ExitCode.PLATFORM)


def test_restarts_are_counted_and_earlier_failures_do_not_hide_the_last():
    found = failure_summary(status([incarnation(1, 1), incarnation(2, 1), incarnation(3, 7)]), printed())
    assert found.summary == "worker-0 failed with exit code 7 after 2 restarts: the program ended with an error."


def test_a_failure_summary_without_a_failed_replica():
    ended = incarnation(5, 143, ReplicaState.STOPPED)
    found = failure_summary(
        status([ended], reason="DeadlineExceeded", message="Deadline `total` passed after 5s."), printed()
    )
    assert (found.summary, found.replica) == ("Deadline `total` passed after 5s.", "")


def test_the_tail_is_twenty_lines():
    found = failure_summary(status([incarnation(5, 1)]), printed(worker_0=[f"line {i}" for i in range(60)]))
    assert (len(found.tail), found.tail[-1]) == (20, "line 59")


def test_only_the_incarnation_that_failed_is_quoted():
    ended = status([incarnation(1, 1), incarnation(2, 7)])
    ended.replicas[0].incarnations[-1].number = 3  # the two before it were not seen
    found = failure_summary(ended, lambda _, incarnation: {0: TRACEBACK, 3: ["silent"]}[incarnation])
    assert (found.exception, found.tail) == ("", ["silent"])
