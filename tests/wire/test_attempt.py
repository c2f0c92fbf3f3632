"""Which attempt a launcher makes: by the jobs of its task, and by what the engine counts."""

import types

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps.cluster import access
from tfsteps.systems import kubeflow
from tfsteps.systems.base import LaunchError

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"


def job(attempt, condition, **metadata):
    status = {"conditions": [{"type": condition, "status": "True"}]}
    labels = {"tfsteps.dev/attempt": str(attempt)}
    return {"metadata": {"name": "a", "labels": labels, **metadata}, "spec": {}, "status": status}


def attempt(answer, engine, monkeypatch):
    """Return the attempt that is chosen, and the queries that were sent; `engine` is what its pod says."""
    with serve([answer]) as server:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        system = kubeflow.system()
        if engine is not None:
            system._host = types.SimpleNamespace(attempt=engine, owner=None)
        return system.attempt("r", "t"), [asked.query for asked in server.asked]


@pytest.mark.parametrize(
    ("engine", "jobs", "expected"),
    [
        (None, [], 0),
        (None, [job(0, RUNNING)], 0),
        (None, [job(0, SUCCEEDED)], 1),
        (None, [job(0, FAILED), job(10, FAILED), job(9, FAILED)], 11),
        (None, [job(0, RUNNING, deletionTimestamp="now")], 1),
        (1, [], 1),
        (1, [job(0, FAILED)], 1),
        (1, [job(0, RUNNING)], 0),
        (1, [job(0, SUCCEEDED)], 0),
        (1, [job(0, FAILED), job(1, FAILED)], 1),
        (2, [job(0, FAILED), job(1, RUNNING)], 1),
        (2, [job(0, RUNNING, deletionTimestamp="now")], 2),
    ],
)
def test_attempt(engine, jobs, expected, monkeypatch):
    chosen, queries = attempt(Answer(200, {"items": jobs}), engine, monkeypatch)
    assert chosen == expected
    (query,) = queries
    assert "tfsteps.dev/run-id=r" in query["labelSelector"]
    assert "tfsteps.dev/task=t" in query["labelSelector"]


def test_the_first_try_asks_nothing(monkeypatch):
    assert attempt(refusal(500), 0, monkeypatch) == (0, [])


@pytest.mark.parametrize("status", [403, 404])
def test_who_may_not_look_begins(status, monkeypatch):
    assert attempt(refusal(status), None, monkeypatch)[0] == 0


def test_a_refusal_of_another_kind_is_an_error(monkeypatch):
    with pytest.raises(LaunchError, match="earlier attempts cannot be looked for"):
        attempt(refusal(400), None, monkeypatch)
