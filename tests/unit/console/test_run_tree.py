"""The tree of a run: on narrow terminals, in ASCII, with many replicas, with text from outside."""

import time

from tests.unit.cli.statuses import FAILURE, status
from tfsteps.console.run_tree import tree
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.graph import Node, NodeKind, Surroundings, graph


def lines(*statuses, around=None, **options):
    root = graph("r1", statuses, around or Surroundings())
    return [str(line) for line in tree(root, **options)]


def test_a_line_has_state_time_node_restarts_and_reason():
    node = Node(
        kind=NodeKind.TENSORBOARD,
        name="tb",
        state="failed",
        started=100.0,
        ended=175.0,
        host="node1",
        restarts=2,
        message="BackoffLimitExceeded",
    )
    assert lines(around=Surroundings(others=[node])) == [
        "└─ TensorBoard tb: failed, 1m15s, on node1, 2 restarts (BackoffLimitExceeded)"
    ]


def test_sixty_replicas_are_one_line_and_those_that_failed():
    job = status(workers=60, created=time.time() - 70)
    for index in (3, 7):
        job.replicas[index].state = ReplicaState.FAILED
        job.replicas[index].incarnations[0].exit_code = 137
    job.replicas[9].restarts = 1
    drawn = lines(job)
    assert drawn[1:] == [
        "   └─ job mnist-abc: running, 1m10s, on elsewhere",
        "      └─ worker x60: 58 running, 2 failed, 1 restart",
        *[f"         ├─ worker-{index}: failed (exit code 137)" for index in (3, 7)],
        "         └─ worker-9: running, 1m, 1 restart",
    ]


def test_hundreds_of_failed_replicas_are_counted():
    job = status(workers=300, state=State.FAILED)
    drawn = lines(job)
    assert len(drawn) == 9
    assert drawn[-1].endswith("└─ and 295 more: failed")


def test_no_line_is_wider_than_the_terminal():
    name = "a-name-" * 30
    job = status(task=name, state=State.FAILED, failure=FAILURE, message="x", namespace="ml")
    drawn = lines(job, width=80)
    assert max(map(len, drawn)) <= 80
    text = " ".join(line.strip("│├└─ ") for line in drawn)
    assert FAILURE.summary in text, "it continues below"
    assert ": failed" in drawn[0], "the name is cut, not the state"


def test_addresses_stay_whole_on_a_narrow_terminal():
    url = "https://ml.example/tensorboard/team/" + "x" * 90
    assert url in "".join(lines(status(tensorboard_url=url), width=80))


def test_earlier_attempts_of_a_task_are_one_line_each():
    first = status(attempt=0, state=State.FAILED, created=time.time() - 100, ended=time.time() - 90, failure=FAILURE)
    drawn = lines(first, status(attempt=1))
    assert drawn[0] == f"├─ task mnist, attempt 0: failed, 10s, job mnist-abc ({FAILURE.summary})"
    assert drawn[1].startswith("└─ task mnist, attempt 1: running, ")
    assert drawn[2].startswith("   └─ job ")


def test_ascii_where_nothing_else_can_be_printed():
    drawn = lines(status(task="a" * 90), status(task="b"), any_character=False, width=60)
    assert drawn[0].startswith("|- task a")
    assert all(line.isascii() for line in drawn)


def test_escape_sequences_do_not_reach_the_terminal():
    node = Node(kind=NodeKind.STEP, name="a\x1b[2Jb", message="no\x1b[1;1H", detail="d\x1b[0m")
    assert "\x1b" not in "".join(lines(around=Surroundings(others=[node])))


def test_without_replicas_for_the_live_view():
    assert [line.split(":")[0] for line in lines(status(), replicas=False)] == [
        "└─ task mnist, attempt 0",
        "   └─ job mnist-abc",
    ]
