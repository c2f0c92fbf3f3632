"""Who starts again when a replica ends: the rules, one line each."""

import pytest

from tfsteps import spec
from tfsteps.systems.restart_policy import SUCCEED, WAIT, RestartPolicy, delay, restart_rules

W0, W1, CHIEF, PS0, EVAL = ("worker", 0), ("worker", 1), ("chief", 0), ("ps", 0), ("evaluator", 0)
MIRRORED = "{worker: {replicas: 2}, evaluator: {}}"
SERVERS = "{chief: {}, ps: {}, worker: {replicas: 2}, evaluator: {}}"
GRAPH = "{ps: {}, worker: {replicas: 2}}\nstrategy: between_graph"


def policy_of(text, *, patient=True):
    return RestartPolicy(restart_rules(spec.parse(f"name: x\ncommand: [x]\n{text}")), patient=patient)


def restarted(decision):
    """Return who is restarted; None = the job has failed."""
    assert decision.action in ("restart", "fail")
    return set(decision.members) if decision.action == "restart" else None


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
    assert restarted(policy_of(f"roles: {roles}\nrestart: on_failure").judge(who, 1, ())) == together


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
    decision = policy_of(f"roles: {MIRRORED}\nrestart: {policy}").judge(W1, code, (), reason)
    assert decision.action == ("restart" if again else "fail")


@pytest.mark.parametrize(
    ("text", "who", "succeeded", "expected"),
    [
        (f"roles: {MIRRORED}", W0, [], SUCCEED),
        (f"roles: {MIRRORED}", W1, [], WAIT),
        (f"roles: {MIRRORED}", EVAL, [], WAIT),
        (f"roles: {SERVERS}", CHIEF, [], SUCCEED),
        (f"roles: {SERVERS}", W0, [], WAIT),
        (f"roles: {MIRRORED}\nsuccess: all_workers", W0, [], WAIT),
        (f"roles: {MIRRORED}\nsuccess: all_workers", W1, [W0], SUCCEED),
        (f"roles: {SERVERS}\nsuccess: all_workers", CHIEF, [W0], WAIT),
        (f"roles: {MIRRORED}\nrestart: always", W0, [], "worker-0 ended with exit code 0; restart 1 of 3"),
        (
            f"roles: {SERVERS}\nrestart: always",
            W1,
            [],
            "worker-1 ended with exit code 0; restart 1 of 3",
        ),
    ],
)
def test_success(text, who, succeeded, expected):
    decision = policy_of(text).judge(who, 0, succeeded)
    assert expected in (decision, decision.message)


def test_the_shared_limit_counts_every_role():
    policy = policy_of(f"roles: {SERVERS}\nrestart: on_failure\nbackoff_limit: 2")
    decisions = [policy.judge(who, 1, ()) for who in (W0, W1, EVAL)]
    assert [decision.action for decision in decisions] == ["restart", "restart", "fail"]
    assert decisions[1].message == "worker-1 ended with exit code 1; restart 2 of 2"
    assert decisions[2][1:3] == (
        "BackoffLimitExceeded",
        "evaluator-0 ended with exit code 1 after 2 of 2 restarts",
    )


@pytest.mark.shows("role_backoff_limit", "local")
def test_a_limit_of_its_own_is_counted_apart():
    policy = policy_of("roles: {chief: {}, worker: {backoff_limit: 1}, ps: {}}\nrestart: on_failure\nbackoff_limit: 1")
    assert [policy.judge(who, 1, ()).action for who in (W0, CHIEF, W0)] == ["restart", "restart", "fail"]


def test_no_backoff_limit_means_three_restarts():
    policy = policy_of("roles: {worker: {}}\nrestart: on_failure")
    decisions = [policy.judge(W0, 1, ()) for _ in range(4)]
    assert [decision.action for decision in decisions] == ["restart", "restart", "restart", "fail"]
    assert [decision.delay for decision in decisions[:3]] == [0, 1, 2]


def test_delay_is_none_at_first_and_bounded():
    assert [delay(count) for count in (1, 2, 3, 4, 50)] == [0, 1, 2, 4, 30]


@pytest.mark.parametrize(("patient", "again"), [(False, False), (True, True)])
def test_the_same_failure_twice_is_the_last_unless_all_restarts_are_used(patient, again):
    policy = policy_of("roles: {worker: {replicas: 2}}\nrestart: on_failure", patient=patient)
    assert policy.judge(W0, 1, (), failure="ValueError: x at t.py:1").action == "restart"
    second = policy.judge(W1, 1, (), failure="ValueError: x at t.py:1")
    assert (second.action == "restart") is again
    assert again or second.reason == "SameFailure"


@pytest.mark.parametrize("other", ["ValueError: y at t.py:1", ""])
def test_another_failure_between_them_is_none_of_the_same(other):
    policy = policy_of("roles: {worker: {}}\nrestart: on_failure", patient=False)
    for failure in ("ValueError: x at t.py:1", other, "ValueError: x at t.py:1"):
        assert policy.judge(W0, 1, (), failure=failure).action == "restart"
