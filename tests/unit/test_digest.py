"""Why a job failed, from what is left of it."""

import pytest

from tfsteps.digest import digest
from tfsteps.identity import Identity
from tfsteps.records import ReplicaStatus, Span, Status
from tfsteps.systems.base import ReplicaState, State

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


def span(ended, code, state=ReplicaState.FAILED, reason="", memory=None):
    return Span(started=0, ended=ended, state=state, exit_code=code, reason=reason, memory_bytes=memory)


def status(*replicas, reason="", message=""):
    listed = [
        ReplicaStatus(role="worker", index=i, spans=list(spans), restarts=len(spans) - 1)
        for i, spans in enumerate(replicas)
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


def test_the_first_to_fail_is_named_with_its_own_frame():
    found = digest(status([span(9, 1)], [span(5, 1)]), {"worker-1": TRACEBACK, "worker-0": ["x"]})
    assert (found.replica, found.exit_code) == ("worker-1", 1)
    assert found.exception == "ValueError: shapes (3,) and (4,) do not match"
    assert found.frame == "train.py:33 in main"
    assert found.summary == (
        "worker-1 failed with exit code 1: ValueError: shapes (3,) and (4,) do not match at train.py:33 in main."
    )
    assert found.tail == TRACEBACK
    assert found.retryable == "user"


def test_the_deadline_that_ended_a_job_comes_before_what_failed_in_it():
    found = digest(status([span(5, 1)], reason="DeadlineExceeded", message="Deadline `total` passed."), {})
    assert found.summary == (
        "Deadline `total` passed. Before that, worker-0 failed with exit code 1: the program raised an error."
    )


def test_the_one_that_the_system_blames_comes_first():
    assert digest(status([span(5, 1)], [span(9, 1)]), {}, "worker-1").replica == "worker-1"


@pytest.mark.parametrize(
    ("code", "reason", "meaning", "retryable"),
    [
        (143, "EvictionByEvictionAPI", "its pod was taken away (EvictionByEvictionAPI)", "infrastructure"),
        (None, "PodDeleted", "its pod was taken away (PodDeleted)", "infrastructure"),
        (1, "", "the program raised an error", "user"),
        (3, "", "the program ended with an error", "user"),
        (127, "", "the command was not found", "user"),
        (137, "", "killed (SIGKILL): by somebody, or by the kernel for lack of memory", "infrastructure"),
        (137, "OOMKilled", "killed for using more than its memory limit (peak 2.0 GiB)", "user"),
        (143, "", "ended (SIGTERM) by somebody", "infrastructure"),
        (139, "", "crashed (SIGSEGV)", "user"),
        (136, "", "ended by signal 8", "user"),
        (1, "PeerLost", "the program raised an error", "infrastructure"),
        (None, "", "its exit code is not known", "user"),
    ],
)
def test_exit_codes_and_who_is_to_blame(code, reason, meaning, retryable):
    found = digest(status([span(5, code, reason=reason, memory=2 * 2**30)]), {})
    assert (found.meaning, found.retryable) == (meaning, retryable)


def test_restarts_are_counted_and_earlier_failures_do_not_hide_the_last():
    found = digest(status([span(1, 1), span(2, 1), span(3, 7)]), {})
    assert found.summary == "worker-0 failed with exit code 7 after 2 restarts: the program ended with an error."


def test_a_job_that_failed_without_a_failed_replica_says_what_is_known():
    ended = span(5, 143, ReplicaState.STOPPED)
    found = digest(status([ended], reason="DeadlineExceeded", message="Deadline `total` passed after 5s."), {})
    assert (found.summary, found.replica) == ("Deadline `total` passed after 5s.", "")


def test_the_tail_is_twenty_lines():
    found = digest(status([span(5, 1)]), {"worker-0": [f"line {i}" for i in range(60)]})
    assert (len(found.tail), found.tail[-1]) == (20, "line 59")
