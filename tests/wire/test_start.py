"""A start that is asked to end, and one that meets an earlier job of its name that is being deleted."""

import pathlib
import time

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.runs.identity import Identity
from tfsteps.systems import kubeflow, registry
from tfsteps.systems.base import LaunchError, StoppedError
from tfsteps.systems.kubernetes import system
from tfsteps.systems.kubernetes.dependents import UNFINISHED
from tfsteps.systems.kubernetes.preflight import findings
from tfsteps.systems.kubernetes.system import SPEC_HASH, KubernetesSystem

JOB = spec.from_plain({"name": "job", "image": "trainer:1", "command": ["true"], "roles": {"worker": {}}})
WHO = Identity(run="r", task="t")


def test_a_signal_that_comes_just_before_it(monkeypatch):
    with serve([refusal(503)]) as server:
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        system = kubeflow.system()
        places = system.places(JOB, WHO, pathlib.Path())
        system.give_up()
        begun = time.monotonic()
        with pytest.raises(StoppedError, match="not known"):
            system.start(JOB, WHO, places)
        assert time.monotonic() - begun < 60, "a server that does not answer is asked for minutes"
        assert [asked.method for asked in server.asked] == ["GET", "GET"], "the last is to see whether there is a job"


# --- a name that is used again


class Cluster:
    """A server with an earlier object of the job's name, which goes after it was asked for `asked` times."""

    def __init__(self, kind, asked, monkeypatch):
        monkeypatch.setattr(findings, "findings", lambda *_: [])
        monkeypatch.setattr(system, "_DELETION_PAUSE", 0.01)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        self.kind, self.left, self.created = kind, asked, []
        self.monkeypatch = monkeypatch

    def start(self):
        with serve(self.answer) as server:
            self.monkeypatch.setattr(access, "find", lambda _context: server.access())
            launcher = KubernetesSystem(self.kind)
            places = launcher.places(JOB, WHO, pathlib.Path())
            wanted = launcher._rendered(JOB, WHO, places, "ns")
            self.old = {**wanted.manifest["metadata"], "uid": "old", "deletionTimestamp": "2026-01-01T00:00:00Z"}
            self.old |= {"finalizers": ["example.org/held"], "annotations": dict(self.old["annotations"])}
            self.old["annotations"].pop(UNFINISHED, None)
            return launcher.start(JOB, WHO, places)

    def answer(self, asked):
        if asked.method == "POST":
            self.created.append(asked.body["metadata"]["name"])
            return Answer(201, {**asked.body, "metadata": {**asked.body["metadata"], "uid": "new", "namespace": "ns"}})
        if asked.method != "GET":
            return Answer(body={})
        self.left -= 1
        own = {"apiVersion": self.kind.resource.api, "kind": self.kind.resource.kind, "metadata": self.old, "spec": {}}
        return Answer(body=own) if self.left >= 0 else refusal(404, "NotFound")


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.resource.api)
def test_a_job_that_is_being_deleted_is_not_adopted(kind, monkeypatch):
    cluster = Cluster(kind, 3, monkeypatch)
    started = cluster.start()
    assert (started.uid, started.is_new) == ("new", True)
    assert cluster.created[0] == started.name
    assert started.name == cluster.old["name"]


def test_a_deletion_that_does_not_end(monkeypatch):
    monkeypatch.setattr(system, "_DELETION_SECONDS", 0.1)
    cluster = Cluster(registry.kinds_of("kubeflow")[0], 10**9, monkeypatch)
    with pytest.raises(LaunchError) as caught:
        cluster.start()
    assert caught.value.retryable
    assert cluster.created == []
    name = cluster.old["name"]
    for told in (f"TFJob ns/{name} is being deleted since 2026-01-01T00:00:00Z", "finalizers", "(example.org/held)"):
        assert told in str(caught.value)


def test_a_deletion_of_a_job_of_another_spec_is_waited_for_too(monkeypatch):
    cluster = Cluster(registry.kinds_of("kubeflow")[0], 3, monkeypatch)
    answer = cluster.answer

    def other(asked):
        cluster.old["annotations"] = {SPEC_HASH: "other"}
        return answer(asked)

    cluster.answer = other
    assert cluster.start().uid == "new"
