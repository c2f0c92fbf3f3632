"""Who starts again when a replica ends: the rules, one line each."""

import pytest

from tfsteps import spec
from tfsteps.runs.events import Replica, ReplicaState
from tfsteps.systems.local.restart_policy import Fail, Restart, RestartPolicy, Succeed, Wait, delay

W0, W1, CHIEF, PS0, EVAL = (
    Replica("worker", 0),
    Replica("worker", 1),
    Replica("chief", 0),
    Replica("ps", 0),
    Replica("evaluator", 0),
)
MIRRORED = "{worker: {replicas: 2}, evaluator: {}}"
SERVERS = "{chief: {}, ps: {}, worker: {replicas: 2}, evaluator: {}}"
GRAPH = "{ps: {}, worker: {replicas: 2}}\nstrategy: between_graph"


def referee(text):
    return RestartPolicy(spec.parse(f"name: x\ncommand: [x]\n{text}"))


def judge(subject, who, code, reason="", **states):
    every = dict.fromkeys(subject.replicas, ReplicaState.RUNNING)
    every[who] = ReplicaState.FAILED if code else ReplicaState.SUCCEEDED
    for name, state in states.items():
        role, _, index = name.rpartition("_")
        every[Replica(role, int(index))] = state
    return subject.judge(who, code, reason, every)


@pytest.mark.parametrize(
    ("roles", "who", "together"),
    [
        (MIRRORED, W1, {W0, W1}),
        (MIRRORED, W0, {W0, W1}),
        (MIRRORED, EVAL, {EVAL}),
        (SERVERS, W1, {W1}),
        (SERVERS, PS0, {PS0, CHIEF}),
        (SERVERS, CHIEF, {CHIEF}),
        (SERVERS, EVAL, {EVAL}),
        (GRAPH, PS0, {PS0}),
        (GRAPH, W0, {W0}),
        ("{worker: {}}", W0, {W0}),
    ],
)
def test_who_starts_again(roles, who, together):
    assert judge(referee(f"roles: {roles}\nrestart: on_failure"), who, 1) == Restart(frozenset(together), 1)


@pytest.mark.shows("restart_always restart_exit_code", "local")
@pytest.mark.parametrize(
    ("policy", "code", "reason", "again"),
    [
        ("never", 1, "", False),
        ("never", 137, "", False),
        ("on_failure", 1, "", True),
        ("on_failure", 137, "", True),
        ("always", 1, "", True),
        ("exit_code", 1, "", False),
        ("exit_code", 127, "", False),
        ("exit_code", 128, "", True),
        ("exit_code", 137, "OOMKilled", True),
        ("exit_code", 1, "PeerLost", True),  # the peer's end is what counts, and it was not seen
    ],
)
def test_which_ends_are_tried_again(policy, code, reason, again):
    decision = judge(referee(f"roles: {MIRRORED}\nrestart: {policy}"), W1, code, reason)
    assert isinstance(decision, Restart if again else Fail)


@pytest.mark.parametrize(
    ("text", "who", "others", "expected"),
    [
        (f"roles: {MIRRORED}", W0, {}, Succeed()),
        (f"roles: {MIRRORED}", W1, {}, Wait()),
        (f"roles: {MIRRORED}", EVAL, {}, Wait()),
        (f"roles: {SERVERS}", CHIEF, {}, Succeed()),
        (f"roles: {SERVERS}", W0, {}, Wait()),
        (f"roles: {MIRRORED}\nsuccess: all_workers", W0, {}, Wait()),
        (f"roles: {MIRRORED}\nsuccess: all_workers", W1, {"worker_0": ReplicaState.SUCCEEDED}, Succeed()),
        (f"roles: {SERVERS}\nsuccess: all_workers", CHIEF, {"worker_0": ReplicaState.SUCCEEDED}, Wait()),
        (f"roles: {MIRRORED}\nrestart: always", W0, {}, Succeed()),
        (f"roles: {SERVERS}\nrestart: always", W1, {}, Restart(frozenset({W1}), 1)),
    ],
)
def test_success(text, who, others, expected):
    assert judge(referee(text), who, 0, **others) == expected


def test_the_shared_limit_counts_every_role():
    subject = referee(f"roles: {SERVERS}\nrestart: on_failure\nbackoff_limit: 2")
    assert [judge(subject, who, 1) for who in (W0, W1)] == [
        Restart(frozenset({W0}), 1),
        Restart(frozenset({W1}), 2),
    ]
    assert judge(subject, EVAL, 1) == Fail(
        "BackoffLimitExceeded", "evaluator-0 ended with exit code 1 after 2 of 2 restarts"
    )


@pytest.mark.shows("role_backoff_limit", "local")
def test_a_limit_of_its_own_is_counted_apart():
    subject = referee("roles: {chief: {}, worker: {backoff_limit: 1}, ps: {}}\nrestart: on_failure\nbackoff_limit: 1")
    assert isinstance(judge(subject, W0, 1), Restart)
    assert isinstance(judge(subject, CHIEF, 1), Restart)
    assert isinstance(judge(subject, W0, 1), Fail)


def test_no_backoff_limit_means_three_restarts():
    subject = referee("roles: {worker: {}}\nrestart: on_failure")
    assert [type(judge(subject, W0, 1)) for _ in range(4)] == [Restart, Restart, Restart, Fail]


def test_delay_is_none_at_first_and_bounded():
    assert [delay(count) for count in (1, 2, 3, 4, 50)] == [0, 1, 2, 4, 30]
