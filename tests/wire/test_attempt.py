"""Which attempt a launcher makes: by the jobs of its task, and by whether their ends were reported."""

import pathlib
import types

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.runs.identity import Identity
from tfsteps.systems import jobs, kubeflow
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.cleanup.retention import REPORTED
from tfsteps.systems.kubernetes.preflight import findings

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"


def job(attempt, condition, *, reported=False, **metadata):
    status = {"conditions": [{"type": condition, "status": "True"}]}
    labels = {"tfsteps.dev/attempt": str(attempt)}
    annotations = {REPORTED: "2026-11-23T10:00:00+00:00"} if reported else {}
    meta = {"name": "a", "labels": labels, "annotations": annotations, **metadata}
    return {"metadata": meta, "spec": {}, "status": status}


def attempt(answer, monkeypatch, *, in_engine=True):
    """Return the attempt that is chosen, and the queries that were sent."""
    with serve(answer if isinstance(answer, list) else [answer]) as server:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        system = kubeflow.PLUGIN.system()
        if in_engine:
            system._host = types.SimpleNamespace(pipeline=object())
        return system.attempt("r", "t"), [asked.query for asked in server.asked]


@pytest.mark.parametrize(
    ("listed", "in_engine", "outside"),
    [
        ([], 0, 0),
        ([job(0, RUNNING)], 0, 0),
        ([job(0, SUCCEEDED)], 0, 0),
        ([job(0, SUCCEEDED, reported=True)], 0, 1),
        ([job(0, FAILED)], 0, 0),
        ([job(0, FAILED, reported=True)], 1, 1),
        ([job(0, FAILED, reported=True), job(10, FAILED, reported=True), job(9, FAILED, reported=True)], 11, 11),
        ([job(0, FAILED, reported=True), job(1, FAILED)], 1, 1),
        ([job(0, FAILED, reported=True), job(1, RUNNING)], 1, 1),
        ([job(0, RUNNING, deletionTimestamp="now")], 0, 1),
    ],
)
def test_attempt(listed, in_engine, outside, monkeypatch):
    for expected, engine in ((in_engine, True), (outside, False)):
        chosen, [query] = attempt(Answer(200, {"items": listed}), monkeypatch, in_engine=engine)
        assert chosen == expected
        assert "tfsteps.dev/run-id=r" in query["labelSelector"]
        assert "tfsteps.dev/task=t" in query["labelSelector"]


@pytest.mark.parametrize("status", [403, 404])
def test_one_refusal_is_not_believed(status, monkeypatch):
    jobs = Answer(200, {"items": [job(3, FAILED, reported=True)]})
    assert attempt([refusal(status), jobs], monkeypatch)[0] == 4


@pytest.mark.parametrize("status", [403, 404])
def test_nothing_is_created_or_adopted_if_earlier_attempts_are_not_known(status, monkeypatch):
    """The first attempt's job may still be there: its end must not be reported as that of this attempt."""
    monkeypatch.setattr("tfsteps.kube.http_client._SETTLE_PAUSES", (9.0, 9.0))
    monkeypatch.setattr(findings, "findings", lambda *_: [])
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def script(asked):
        return refusal(status) if asked.path.endswith("/tfjobs") else Answer(body=existing)

    existing = {}
    with serve(script) as server:
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        system, who = kubeflow.PLUGIN.system(), Identity(run="r", task="t")
        training = spec.from_plain({"name": "a", "image": "a:1", "roles": {"worker": {}}})
        paths = system.output_paths(training, who, pathlib.Path())
        existing |= system._rendered(training, who, paths, "ns").manifest
        assert system.attempt("r", "t") == 0
        with pytest.raises(LaunchError, match="earlier attempts of the task could not be looked for") as caught:
            system.start(training, who, paths)
        assert caught.value.retryable
        assert {asked.method for asked in server.asked} == {"GET"}


def test_a_refusal_of_another_kind_is_an_error(monkeypatch):
    with pytest.raises(LaunchError, match="earlier attempts cannot be looked for"):
        attempt(refusal(400), monkeypatch)


def test_the_job_object_decides_and_not_a_part_of_the_job(monkeypatch):
    def of_jobs(name, condition, owners, **noted):
        labels = {"tfsteps.dev/attempt": "0", "tfsteps.dev/job": "a", "tfsteps.dev/role": name}
        meta = {"name": "a" if name == "chief" else f"a-{name}", "uid": name, "labels": labels, "annotations": noted}
        status = {"conditions": [{"type": condition, "status": "True"}]}
        return {"metadata": {**meta, "ownerReferences": owners}, "spec": {}, "status": status}

    parts = {"tfsteps.dev/parts": "worker", REPORTED: "2026-11-23T10:00:00+00:00"}
    items = [of_jobs("chief", "Complete", [], **parts), of_jobs("worker", "Failed", [{"kind": "Job", "uid": "chief"}])]
    monkeypatch.setattr(kubeflow, "PLUGIN", jobs.PLUGIN)
    assert attempt(Answer(200, {"items": items}), monkeypatch)[0] == 1, "the end was reported: a retry starts a new job"
    items[1]["status"]["conditions"][0]["type"] = "Complete"
    assert attempt(Answer(200, {"items": items}), monkeypatch)[0] == 0


@pytest.mark.parametrize(
    ("listed", "chosen"),
    [
        (job(0, RUNNING), 0),
        (job(0, SUCCEEDED, reported=True), None),
        (job(0, RUNNING, deletionTimestamp="now"), None),
    ],
    ids=["it runs", "its success was reported", "it is being deleted"],
)
def test_a_step_that_cannot_read_its_own_pod_does_not_train_again(listed, chosen, monkeypatch):
    """A retry reports the success again; whether it is one is not known."""
    with serve([Answer(200, {"items": [listed]})]) as server:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        system = kubeflow.PLUGIN.system()
        system.join_pipeline(lambda _api, _pod: None)
        system._host = types.SimpleNamespace(pipeline=None, unread="you may not")
        if chosen is not None:
            assert system.attempt("r", "t") == chosen
            return
        with pytest.raises(LaunchError, match=r"own pod cannot be read \(you may not\)") as caught:
            system.attempt("r", "t")
    assert caught.value.retryable
