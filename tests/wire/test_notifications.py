"""Notifications of a job on a cluster that is paused, resumed and stopped: what its launcher sends, and to whom."""

import os
import pathlib
import signal
import time

import pytest

from tests.support.webhook_receiver import PATH, receiver
from tests.unit.systems.kubernetes.objects import tfjob
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_job import events
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.launcher.lifecycle import resume
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.systems import kubeflow

EVENTS = ["succeeded", "failed", "cancelled", "paused", "resumed"]
JOB = spec.from_plain({"name": "mnist", "image": "trainer:1", "roles": {"worker": {}}, "notify": [{"events": EVENTS}]})
TOKEN = PATH.rpartition("/")[2]


@pytest.fixture
def webhook(monkeypatch):
    with receiver() as webhook:
        monkeypatch.setenv("TFSTEPS_WEBHOOK_URL", webhook.url)
        yield webhook


def follow(monkeypatch, first, *changes, on_watch=lambda: None):
    """Follow a job from its `first` state through `changes`; return the status, and the requests to the API server."""

    def script(asked):
        watch = "watch" in asked.query
        if asked.method == "DELETE":
            return Answer(body={})
        if asked.path.endswith("/tfjobs"):
            if watch:
                on_watch()
            listed = Answer(body={"metadata": {"resourceVersion": "1"}, "items": [first]})
            return events(*changes) if watch else listed
        if asked.path.endswith("/pods"):
            empty = Answer(body={"metadata": {"resourceVersion": "1"}, "items": []})
            return Answer(parts=["hang"]) if watch else empty
        return refusal(404, "NotFound")

    identity = Identity(run="r", task="t", attempt=1, pipeline="nightly")
    worker = ReplicaStatus(role="worker", index=0)
    status = Status(
        identity=identity,
        job="job",
        uid="u1",
        namespace="ns",
        system="kubeflow",
        created=time.time(),
        replicas=[worker],
    )
    with serve(script) as server:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        return resume(JOB, status, kubeflow.PLUGIN.system(namespace="ns")), server.asked


def test_a_job_that_is_paused_and_resumed(webhook, monkeypatch):
    running = ("MODIFIED", tfjob("Running"))
    changes = (0.2, ("MODIFIED", tfjob("Running", suspend=True)), 0.2, running, 0.2, ("MODIFIED", tfjob("Succeeded")))
    status, asked = follow(monkeypatch, tfjob("Running"), *changes)
    assert status.state is State.SUCCEEDED
    assert webhook.events() == ["paused", "resumed", "succeeded"]
    body = webhook.requests[0].body
    assert (body["state"], body["namespace"], body["job"], body["name"]) == ("suspended", "ns", "job", "mnist")
    assert (body["run"], body["task"], body["attempt"], body["pipeline"]) == ("r", "t", 1, "nightly")
    assert not any(TOKEN in str(request) for request in asked), "the API server never sees the URL"
    assert not any("/secrets" in request.path for request in asked)


def test_a_receiver_that_hangs_does_not_keep_a_stopped_launcher(webhook, monkeypatch):
    """The receiver answers nothing before the end of the test: the launcher returns without its answer."""
    webhook.hold()
    changes = (("DELETED", tfjob("Running")),)
    stop = lambda: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
    status, asked = follow(monkeypatch, tfjob("Running"), 0.2, *changes, on_watch=stop)
    assert status.state is State.CANCELLED
    assert "DELETE" in [request.method for request in asked]
    assert any("were not accepted before the end of the step" in warning for warning in status.warnings)
    files = [file for file in pathlib.Path(os.environ["TFSTEPS_HOME"]).rglob("*") if file.is_file()]
    assert files
    assert not any(TOKEN in file.read_text(errors="replace") for file in files)
