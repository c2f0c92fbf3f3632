"""Why a job failed, from what is left of it."""

import msgspec
import pytest

from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import exit_code, failure_summary
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
    failure = failure_summary(ended, printed())
    assert failure.summary.startswith(
        "It ended otherwise. Before that, worker-0 failed with exit code 1 after 1 restart"
    )


def test_the_first_to_fail_is_named_with_its_own_frame():
    failure = failure_summary(
        status([incarnation(9, 1)], [incarnation(5, 1)]), printed(worker_1=TRACEBACK, worker_0=["x"])
    )
    assert (failure.replica, failure.exit_code) == ("worker-1", 1)
    assert failure.exception == "ValueError: shapes (3,) and (4,) do not match"
    assert failure.frame == "train.py:33 in main"
    assert failure.summary == (
        "worker-1 failed with exit code 1: ValueError: shapes (3,) and (4,) do not match at train.py:33 in main."
    )
    assert failure.tail == TRACEBACK
    assert failure.fault == "user"


def test_a_long_exception_keeps_its_type_and_what_is_behind_its_values():
    lines = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        f"ValueError: {[0.0] * 999} is not a Tensor",
    ]
    failure = failure_summary(status([incarnation(5, 1)]), printed(worker_0=lines))
    assert failure.exception.startswith("ValueError: [0.0, ")
    assert failure.exception.endswith("0.0] is not a Tensor")
    assert len(failure.exception) < 310


def test_the_deadline_that_ended_a_job_comes_before_what_failed_in_it():
    failure = failure_summary(
        status([incarnation(5, 1)], reason="DeadlineExceeded", message="Deadline `total` passed."), printed()
    )
    assert failure.summary == (
        "Deadline `total` passed. Before that, worker-0 failed with exit code 1: the program raised an error."
    )


@pytest.mark.parametrize("code", [137, 143])
def test_a_replica_that_a_deadline_killed_has_not_failed(code):
    killed = status([incarnation(5, code)], reason="DeadlineExceeded", message="It was active for too long")
    for blamed in ("", "worker-0"):
        failure = failure_summary(killed, printed(), blamed)
        assert (failure.summary, failure.replica, failure.exit_code) == ("It was active for too long", "", None)
        assert failure.fault == "user"
    before = status([incarnation(5, code)], [incarnation(9, 1)], reason="DeadlineExceeded", message="Too long")
    assert failure_summary(before, printed()).summary.startswith(
        "Too long. Before that, worker-1 failed with exit code 1"
    )
    out_of_memory = status([incarnation(5, code, reason="OOMKilled")], reason="DeadlineExceeded", message="Too long")
    assert failure_summary(out_of_memory, printed()).replica == "worker-0"


def test_the_deletion_of_a_job_comes_before_the_pods_that_went_with_it():
    ended = status([incarnation(5, None, reason="PodDeleted")], reason="Deleted", message="Gone.")
    ended.state = State.LOST
    assert failure_summary(ended, printed()).summary.startswith(
        "Gone. Before that, worker-0 failed: its pod was deleted"
    )


def test_the_one_that_the_system_blames_comes_first():
    assert (
        failure_summary(status([incarnation(5, 1)], [incarnation(9, 1)]), printed(), "worker-1").replica == "worker-1"
    )


@pytest.mark.parametrize(
    ("code", "reason", "meaning", "fault"),
    [
        (143, "EvictionByEvictionAPI", "its pod was deleted or evicted (EvictionByEvictionAPI)", "platform"),
        (None, "PodDeleted", "its pod was deleted or evicted (PodDeleted)", "platform"),
        (1, "", "the program raised an error", "user"),
        (3, "", "the program ended with an error", "user"),
        (127, "", "the command was not found", "user"),
        (
            137,
            "",
            "killed (SIGKILL): by whom is not known; the kernel does so if memory is short (peak 2.0 GiB)",
            "platform",
        ),
        (137, "OOMKilled", "killed for using more than its memory limit (peak 2.0 GiB)", "user"),
        (143, "", "ended (SIGTERM): by whom is not known", "platform"),
        (139, "", "crashed (SIGSEGV)", "user"),
        (136, "", "ended by signal 8 (SIGFPE)", "user"),
        (255, "", "the program ended with an error", "user"),
        (193, "", "the program ended with an error", "user"),
        (1, "PeerLost", "the program raised an error", "platform"),
        (None, "", "its exit code is not known", "user"),
    ],
)
def test_exit_codes_and_who_is_to_blame(code, reason, meaning, fault):
    failure = failure_summary(status([incarnation(5, code, reason=reason, memory=2 * 2**30)]), printed())
    assert (failure.meaning, failure.fault) == (meaning, fault)


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


@pytest.mark.parametrize("reason", ["InitFailed", "Watchdog"])
def test_a_failure_that_hai_does_not_explain_may_not_occur_again(reason):
    ended = status([], reason=reason, message="A pod ended.")
    assert (failure_summary(ended, printed()).fault, exit_code(ended)) == ("platform", ExitCode.FAILED)


def test_restarts_are_counted_and_earlier_failures_do_not_hide_the_last():
    failure = failure_summary(status([incarnation(1, 1), incarnation(2, 1), incarnation(3, 7)]), printed())
    assert failure.summary == "worker-0 failed with exit code 7 after 2 restarts: the program ended with an error."


def test_a_restart_that_comes_after_the_failure_is_not_one_before_it():
    last = msgspec.structs.replace(incarnation(9, None, ReplicaState.STOPPED), number=1)  # its pod never started
    failure = failure_summary(status([incarnation(3, 7), last]), printed())
    assert failure.summary == "worker-0 failed with exit code 7: the program ended with an error."


@pytest.mark.parametrize(("reason", "code"), [("MasterFailed", 7), ("BackoffLimitExceeded", 143)])
def test_who_was_restarted_and_killed_because_the_job_had_failed_failed_before(reason, code):
    killed = status([incarnation(1, 130), incarnation(2, 7), incarnation(3, 143)], reason=reason)
    killed.system = "tfjob-v1alpha1"
    assert failure_summary(killed, printed()).exit_code == code
    killed.system = "of a package that is not installed"
    assert failure_summary(killed, printed()).exit_code == 143


def test_a_failure_summary_without_a_failed_replica():
    ended = incarnation(5, 143, ReplicaState.STOPPED)
    failure = failure_summary(
        status([ended], reason="DeadlineExceeded", message="Deadline `total` passed after 5s."), printed()
    )
    assert (failure.summary, failure.replica) == ("Deadline `total` passed after 5s.", "")


def test_the_tail_is_twenty_lines():
    failure = failure_summary(status([incarnation(5, 1)]), printed(worker_0=[f"line {i}" for i in range(60)]))
    assert (len(failure.tail), failure.tail[-1]) == (20, "line 59")


def test_only_the_incarnation_that_failed_is_quoted():
    ended = status([incarnation(1, 1), incarnation(2, 7)])
    ended.replicas[0].incarnations[-1].number = 3  # the two before it were not seen
    failure = failure_summary(ended, lambda _, incarnation: {0: TRACEBACK, 3: ["silent"]}[incarnation])
    assert (failure.exception, failure.tail) == ("", ["silent"])


LOST = ["Traceback (most recent call last):", '  File "t.py", line 9, in step', "UnavailableError: a task is gone"]
OWN = ["Traceback (most recent call last):", '  File "t.py", line 3, in step', "ValueError: no batch"]
ENDED = ReplicaState.SUCCEEDED


def test_a_worker_that_ended_early_with_0_is_the_failure():
    failure = failure_summary(
        status([incarnation(20, 1)], [incarnation(9, 0, ENDED)]), printed(worker_0=LOST), "worker-0"
    )
    assert (failure.replica, failure.exit_code, failure.fault) == ("worker-1", 0, "user")
    assert failure.summary.startswith("worker-1 ended with exit code 0 11 s before worker-0 failed")
    assert "docs/get-started/mirrored.md" in failure.hint


@pytest.mark.parametrize(
    ("first", "second", "lines"),
    [
        ([incarnation(20, 1)], [incarnation(25, 0, ENDED)], LOST),  # it ended later
        ([incarnation(20, 1)], [incarnation(9, 0, ENDED)], OWN),  # an error of its own
    ],
)
def test_a_worker_that_ended_is_not_blamed_for_what_it_did_not_cause(first, second, lines):
    assert failure_summary(status(first, second), printed(worker_0=lines)).replica == "worker-0"


def test_with_parameter_servers_workers_may_end_one_after_the_other():
    ended = status([incarnation(20, 1)], [incarnation(9, 0, ENDED)])
    ended.replicas.append(ReplicaStatus(role="ps", index=0))
    assert failure_summary(ended, printed(worker_0=LOST)).replica == "worker-0"


def test_the_replica_with_an_error_of_its_own_comes_before_its_peers_that_lost_it():
    ended = status([incarnation(10, 1)], [incarnation(21, 1)])
    failure = failure_summary(ended, printed(worker_0=LOST, worker_1=OWN), "worker-0")
    assert (failure.replica, failure.exception, failure.fault) == ("worker-1", "ValueError: no batch", "user")


def test_who_was_killed_because_the_job_had_failed_is_not_the_cause():
    ended = status([incarnation(10, 1)], [incarnation(21, 137)])
    assert failure_summary(ended, printed(worker_0=LOST)).replica == "worker-0"
    assert failure_summary(ended, printed(worker_0=LOST)).fault == "platform"


def test_failures_of_unknown_time_have_no_first():
    unknown = Incarnation(started=5, ended=5, state=ReplicaState.FAILED, exit_code=1)
    ended = status([unknown], [unknown], message="These failed: worker-0, worker-1.")
    assert failure_summary(ended, printed()).replica == ""
    assert failure_summary(ended, printed(), "worker-1").replica == "worker-1"


@pytest.mark.parametrize(
    ("reason", "message", "limit", "meaning", "fault"),
    [
        ("OOMKilled", "", 2**30, "killed for using more than its memory limit of 1.0 GiB (peak 2.0 GiB)", "user"),
        (
            "Evicted",
            "The node was low on memory.",
            None,
            "its pod was deleted or evicted (Evicted: The node was low",
            "platform",
        ),
        ("StartError", 'exec: "trian": executable file not found in $PATH', None, "the program could not be", "user"),
        ("StartError", "exec /bin/x: argument list too long", None, "the program could not be started (Sta", "user"),
        ("StartError", "exec /bin/x: exec format error", None, "the program could not be started (StartE", "user"),
        ("StartError", "cannot set up the cgroup: device busy", None, "the program could not be star", "platform"),
    ],
)
def test_what_the_platform_says_about_an_end(reason, message, limit, meaning, fault):
    end = incarnation(5, 128 if reason == "StartError" else 137, reason=reason, memory=2 * 2**30)
    end.message, end.memory_limit = message, limit
    failure = failure_summary(status([end]), printed())
    assert failure.meaning.startswith(meaning)
    assert message.rstrip(".") in failure.meaning
    assert failure.fault == fault
