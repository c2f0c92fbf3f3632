"""A launcher whose requests are answered with what it did not ask for: HTML, nothing, other kinds, cut bodies."""

import gc
import json
import os
import pathlib
import random
import signal
import threading

import pytest

from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, completed, refusal, serve
from tfsteps import spec
from tfsteps.kube import access, client, http_client, watch
from tfsteps.launcher.lifecycle import launch
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.systems import kubeflow
from tfsteps.systems.base import Cause, LaunchError
from tfsteps.systems.kubernetes.follow.job import KubernetesJob

JOB = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {}}, "on_end": "keep"})
WHO = Identity(run="r", task="t")
STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
WORKFLOW = {"kind": "WorkflowList", "apiVersion": "argoproj.io/v1alpha1", "metadata": {}, "items": []}


class Cluster:
    """A cluster on which a job runs and succeeds, behind something that answers in its place at first."""

    def __init__(self, seed, wrong_answers):
        self.random = random.Random(seed)
        self.left = dict.fromkeys(("get", "create", "list", "watch", "pods", "review", "other"), wrong_answers)
        self.job = None
        self.lock = threading.Lock()

    def __call__(self, asked):
        with self.lock:
            right = self._right(asked)
            kind = self._kind(asked)
            if asked.path.endswith("/log") or not self.left[kind]:
                return right
            self.left[kind] -= 1
            return self._wrong(asked, right)

    @staticmethod
    def _kind(asked):
        if asked.method == "POST":
            return "create" if asked.path.endswith("/tfjobs") else "review"
        if "watch" in asked.query:
            return "watch"
        ends = {"tfjobs": "list", "pods": "pods"}
        return ends.get(asked.path.rpartition("/")[2], "get" if "/tfjobs/" in asked.path else "other")

    def _right(self, asked):
        if asked.path.endswith("/log"):
            return Answer(body=b"2026-01-01T00:00:00Z line\n")
        if asked.method == "POST":
            return self._created(asked) if asked.path.endswith("/tfjobs") else Answer(201, {"status": {}})
        if "watch" in asked.query:
            return Answer(parts=[0.3])
        if "/tfjobs/" in asked.path:
            return Answer(body=self._standing()) if self.job else refusal(404, "NotFound")
        return Answer(body={"items": self._items(asked)})

    def _items(self, asked):
        if asked.path.endswith("/tfjobs"):
            self.lists += 1
            return [self._standing()]
        return [pod("out of memory")] if self.job and asked.path.endswith("/pods") else []

    lists = 0

    def _created(self, asked):
        if "dryRun" in asked.query:
            return Answer(201, asked.body)
        if self.job:
            return refusal(409, "AlreadyExists")
        self.job = {**asked.body["metadata"], "uid": "u1", "resourceVersion": "1"}
        return Answer(201, {**asked.body, "metadata": self.job})

    def _standing(self):
        return {**tfjob("Succeeded" if self.lists > 2 else "Running"), "metadata": self.job}

    def _wrong(self, asked, right):
        body = completed(asked, right.body) if right.body else {"type": "DELETED", "object": {}}
        text = json.dumps(body).encode() if not isinstance(body, bytes) else body
        return self.random.choice(
            [
                Answer(body=b"<html><body>Please log in</body></html>"),
                Answer(body=self.random.choice([b"null", b"", b"[]", b"{}", b"7", b"\xff\xfe", b"[" * 50_000])),
                Answer(body=json.dumps(STATUS).encode()),
                Answer(body=json.dumps(WORKFLOW).encode()),
                Answer(body=text[: self.random.randrange(len(text))]),
                Answer(body=json.dumps(self._twisted(body)).encode()),
                Answer(self.random.choice([301, 302, 500, 502, 503, 504]), b"<html>"),
                Answer(429, b"", {"Retry-After": self.random.choice(["0", "²", "x", "-1"])}),
                "reset",
            ]
        )

    def _twisted(self, body):
        """Return `body` with one thing of every object's replaced by something of another shape."""
        twisted = json.loads(json.dumps(body)) if isinstance(body, dict) else {}
        path = self.random.choice(
            [("kind",), ("apiVersion",), ("metadata",), ("metadata", "uid"), ("metadata", "name")]
        )
        if "items" in twisted:
            path = self.random.choice(
                [("kind",), ("apiVersion",), ("metadata",), ("metadata", "resourceVersion"), ("items",)]
            )
        inner = twisted
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = self.random.choice([7, [7], {"x": 1}, True] if path[-1] != "metadata" else [7, "x", [7]])
        return twisted


@pytest.fixture
def outside(monkeypatch, tmp_path):
    """Outside of pods, and in a hurry."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    for module in (http_client, watch):
        monkeypatch.setattr(module, "_FIRST_PAUSE", 0.02)
        monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.1)


@pytest.fixture
def no_garbage():
    """Collect no garbage: within an answer that is nested too deep, the finalizers of other objects fail."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("seed", range(24))
def test_the_job_ends_correctly_after_the_wrong_answers(seed, outside, no_garbage, monkeypatch):
    cluster = Cluster(seed, wrong_answers=4)
    died = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    with serve(cluster) as server:
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        status = launch(JOB, WHO, kubeflow.PLUGIN.system(), base_dir=pathlib.Path())
    assert (status.state, status.message) == (State.SUCCEEDED, "")
    assert [asked.method for asked in server.asked if asked.method in {"DELETE", "PATCH"}] == []
    created = [asked for asked in server.asked if asked.path.endswith("/tfjobs") and asked.method == "POST"]
    assert len({asked.body["metadata"]["name"] for asked in created}) == 1
    assert not died


@pytest.mark.parametrize("where", ["list", "pods", "create", "get"])
def test_wrong_answers_for_hours_are_one_clear_error(where, outside, monkeypatch):
    cluster = Cluster(1, wrong_answers=0)
    cluster.left[where] = 10**9
    monkeypatch.setattr(Cluster, "_wrong", lambda *_: Answer(body=b"<html>log in</html>"))
    monkeypatch.setattr(client.Api.__init__, "__defaults__", (0.5, 30.0))
    with serve(cluster) as server:
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        if where == "pods":  # the job is seen to its end without them
            assert launch(JOB, WHO, kubeflow.PLUGIN.system(), base_dir=pathlib.Path()).state is State.SUCCEEDED
            return
        with pytest.raises(LaunchError, match=r"not what was asked for.*<html>log in</html>") as caught:
            launch(JOB, WHO, kubeflow.PLUGIN.system(), base_dir=pathlib.Path())
    assert caught.value.retryable
    assert "DELETE" not in {asked.method for asked in server.asked}


# --- what follows from an answer that nobody checks


def job_of(server):
    item = {**tfjob(), "metadata": {**tfjob()["metadata"], "namespace": "ns"}}
    return KubernetesJob(client.Api(server.access(), patience=0.5), kubeflow.PLUGIN.system()._kind, item, JOB, None)


def test_an_object_that_is_not_understood_leaves_the_job():
    odd = {**tfjob("Running"), "status": {"conditions": [7]}}
    lists = lambda asked: Answer(parts=["hang"]) if "watch" in asked.query else Answer(body={"items": [odd]})  # noqa: E731
    with (
        serve(lists) as server,
        pytest.raises(LaunchError, match=r"was not stopped, but an answer .* not understood") as caught,
    ):
        list(job_of(server).events())
    assert caught.value.retryable


def test_a_thread_that_fails_ends_the_wait(monkeypatch):
    monkeypatch.setattr(watch.Watch, "_list", lambda _: 1 / 0)
    with serve([Answer(parts=["hang"])]) as server, pytest.raises(LaunchError, match="ZeroDivisionError") as caught:
        list(job_of(server).events())
    assert caught.value.retryable


# --- a signal while the launcher itself is busy with a request


def test_a_signal_that_comes_within_a_lock_of_the_clients_pool():
    """The locks of urllib3's pool are not reentrant: a handler that used the same client would wait for itself."""
    with serve([Answer(body=None)]) as server:
        job = job_of(server)
        locks = [client._pool.pool.mutex for client in (job._urgent, job._api)]
        freed = threading.Event()

        def free():
            freed.set()
            for lock in locks:
                lock.release()

        rescue = threading.Timer(20, free)
        before = signal.signal(signal.SIGTERM, lambda *_: job.stop(Cause.CANCELLED))
        for lock in locks:
            lock.acquire()
        rescue.start()
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            assert not freed.is_set(), "the handler waited for a lock of the code that it interrupted"
        finally:
            signal.signal(signal.SIGTERM, before)
            rescue.cancel()
            if not freed.is_set():
                free()
        assert [asked.method for asked in server.asked] == ["DELETE"]
