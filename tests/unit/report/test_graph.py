"""The graph: every replica once, and the connections that the strategy has."""

import pytest

from tests.unit.report.test_html import Reader
from tfsteps.report.graph import graph
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.status import ReplicaStatus


def replicas(**counts):
    return [ReplicaStatus(role=role, index=i) for role, count in counts.items() for i in range(count)]


def drawn(strategy, blamed="", **counts):
    return Reader(graph(replicas(**counts), strategy, "worker-0", blamed))


def classes(read, name):
    return [attrs["class"] for tag, attrs in read.tags if tag == name and attrs.get("class")]


@pytest.mark.parametrize(
    ("strategy", "counts", "edges"),
    [
        ("single", {"worker": 1}, []),
        ("multi_worker_mirrored", {"worker": 1}, []),
        ("multi_worker_mirrored", {"chief": 1, "worker": 3}, ["edge ring"]),
        ("multi_worker_mirrored", {"worker": 2, "evaluator": 1}, ["edge ring", "edge loose", "edge loose"]),
        ("parameter_server", {"chief": 1, "worker": 2, "ps": 2}, ["edge"] * 6),
        ("parameter_server", {"worker": 64, "ps": 4}, ["edge trunk"]),
        ("between_graph", {"worker": 2, "ps": 1}, ["edge"] * 2),
        ("multi_worker_mirrored", {}, []),
        ("parameter_server", {"ps": 3}, []),
        ("single", {"evaluator": 2}, []),
        ("parameter_server", {"ps": 2, "evaluator": 1}, []),
    ],
)
def test_connections(strategy, counts, edges):
    read = drawn(strategy, **counts)
    assert classes(read, "path") == edges
    links = [attrs["href"] for tag, attrs in read.tags if tag == "a"]
    assert sorted(links) == sorted(f"#{replica.name}" for replica in replicas(**counts))


@pytest.mark.parametrize(
    ("counts", "titles"),
    [
        ({"ps": 3}, ["Parameter servers"]),
        ({"ps": 1, "evaluator": 1}, ["Parameter servers", "Evaluator"]),
        ({"evaluator": 1}, ["Evaluator"]),
    ],
)
def test_a_job_without_trainers_has_no_frame_for_them(counts, titles):
    read = drawn("parameter_server", **counts)
    frames = [attrs for tag, attrs in read.tags if tag == "rect" and attrs.get("class") == "frame"]
    assert len(frames) == len(titles)
    assert [title for title in ("Parameter servers", "Training", "Evaluator") if title in read.text] == titles
    assert "decides how the job ends" not in read.text


def test_no_replica():
    assert drawn("single").text == "No replica was recorded."


def test_nodes_do_not_touch():
    read = drawn("multi_worker_mirrored", worker=64)
    boxes = [
        [float(attrs[key]) for key in ("x", "y", "width", "height")]
        for tag, attrs in read.tags
        if tag == "rect" and not attrs.get("class")
    ]
    assert len(boxes) == 64
    for i, (x, y, width, height) in enumerate(boxes):
        assert all(abs(x - a) >= width + 10 or abs(y - b) >= height + 10 for a, b, _, _ in boxes[:i])


def test_states_are_named_in_text():
    failed = ReplicaStatus(role="worker", index=0, state=ReplicaState.FAILED, restarts=2)
    read = Reader(graph([failed], "single", "worker-0", ""))
    (link,) = [attrs for tag, attrs in read.tags if tag == "a"]
    assert link["aria-label"] == "worker-0: failed, 2 restarts. It decides how the job ends. Open the log."
    assert link["class"] == "node is-failed"
    assert "failed" in read.text


def test_who_failed_first_stands_out():
    read = drawn("multi_worker_mirrored", blamed="worker-1", worker=3)
    assert classes(read, "a") == ["node is-pending", "node is-pending blamed", "node is-pending"]
    assert "failed first" in read.text
