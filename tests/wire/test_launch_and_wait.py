"""A job that one process creates and another one follows: the requests of each to the API server."""

import io
import os
import pathlib
import signal
import time

import pytest

from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.launcher.lifecycle import begin, resume
from tfsteps.launcher.printer import Printer
from tfsteps.platforms.hai import job_system as hai
from tfsteps.platforms.hai.client import Client
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.systems import kubeflow
from tfsteps.systems.base import JobNote, LaunchError
from tfsteps.systems.kubernetes import system as kubernetes

JOB = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {}}})
WHO = Identity(run="r", task="t")
HERE = pathlib.Path("/")
VERSION = {"resourceVersion": "1"}


@pytest.fixture
def talk(monkeypatch):
    """Return a function that serves a script to a fresh job system and calls something with it."""

    def run(script, act):
        with serve(script) as server:
            monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
            monkeypatch.setattr(access, "find", lambda _context: server.access())
            result = act(kubeflow.PLUGIN.system())
            return result, [(item.method, "watch" in item.query) for item in server.asked if "tfjobs" in item.path]

    return run


def listed(*items):
    return Answer(body={"metadata": VERSION, "items": list(items)})


def created(asked):
    return Answer(201, {**asked.body, "metadata": {**asked.body["metadata"], "uid": "u1", **VERSION}})


def api_server(jobs, on_create=lambda: None):
    """Answer as a server with `jobs`; a dry run changes nothing."""

    def script(asked):
        if asked.method == "POST" and "tfjobs" in asked.path:
            if "dryRun" not in asked.query:
                on_create()
            return created(asked)
        if asked.method == "POST":
            return refusal(403, "Forbidden")
        if asked.method == "DELETE":
            return Answer(body={})
        if asked.path.endswith("/tfjobs"):
            return Answer(parts=["hang"]) if "watch" in asked.query else listed(*jobs)
        if asked.path.endswith("/pods"):
            return Answer(parts=["hang"]) if "watch" in asked.query else listed()
        return refusal(404, "NotFound")

    return script


def test_begin_creates_and_follows_nothing(talk):
    status, asked = talk(api_server([]), lambda system: begin(JOB, WHO, system, base_dir=HERE))
    assert (status.state, status.uid, status.namespace) == (State.PENDING, "u1", "ns")
    assert status.job == WHO.job_name("job", 54)
    assert [item for item in asked if item[0] == "POST"] == [("POST", False)] * 2, "a dry run, and the job"
    assert ("GET", True) not in asked
    assert asked[-1] == ("PATCH", False), "left for a wait step"
    assert ("DELETE", False) not in asked


def test_begin_that_is_stopped_while_the_job_is_created(talk):
    server = api_server([], on_create=lambda: os.kill(os.getpid(), signal.SIGTERM))
    status, asked = talk(server, lambda system: begin(JOB, WHO, system, base_dir=HERE))
    assert (status.state, status.uid) == (State.CANCELLED, "u1")
    assert ("DELETE", False) in asked


def launched(created=None):
    worker = ReplicaStatus(role="worker", index=0)
    who = {"identity": WHO, "job": "job", "uid": "u1", "namespace": "ns", "system": "kubeflow"}
    return Status(**who, created=created or time.time(), replicas=[worker])


@pytest.mark.parametrize(
    ("jobs", "state", "reason"),
    [
        ([tfjob("Succeeded")], State.SUCCEEDED, ""),
        ([tfjob("Failed")], State.FAILED, ""),
        ([], State.LOST, "Deleted"),
        ([tfjob("Running", uid="u2")], State.LOST, "Replaced"),
    ],
)
def test_resume_creates_nothing(jobs, state, reason, talk):
    status, asked = talk(api_server(jobs), lambda system: resume(JOB, launched(), system))
    assert status.state == state
    assert status.reason == reason or not reason
    assert {method for method, _ in asked} == {"GET"}


def test_resume_keeps_what_is_known_of_the_job(talk):
    known = launched()
    known.tensorboard_url = "http://board"
    status, _ = talk(api_server([tfjob("Succeeded")]), lambda system: resume(JOB, known, system))
    assert (status.tensorboard_url, status.launcher) == ("http://board", os.getpid())


@pytest.mark.parametrize("answer", ["reset", Answer(parts=["hang"]), refusal(503, "ServiceUnavailable")])
@pytest.mark.parametrize("where", ["kubeflow", "hai"])
def test_the_last_note_of_a_step_is_not_waited_for_long(answer, where, monkeypatch):
    """Its outputs are written: an API server that is away costs a retry that reports the same end again, no more."""
    for module in (hai, kubernetes):
        monkeypatch.setattr(module, "REPORT_SECONDS", 1.0)
    with serve(lambda _: answer) as server:
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        on = kubeflow.PLUGIN.system(namespace="ns") if where == "kubeflow" else hai.HaiSystem()
        vars(on).update({"_client": Client(server.access())} if where == "hai" else {})
        began = time.monotonic()
        with pytest.raises(LaunchError, match=r"could not be (annotated|tagged) as reported"):
            on.note(JOB, "job", "u1", JobNote.REPORTED)
        server.hanging.set()
    assert time.monotonic() - began < 5


def test_the_end_is_printed_before_the_pods_are_removed(talk):
    out, printed = io.StringIO(), []
    others = api_server([tfjob("Succeeded")])

    def script(asked):
        if asked.path.endswith("/log"):
            return Answer(body=b"")
        if asked.method == "DELETE":
            printed.append(out.getvalue())
        pods = asked.path.endswith("/pods") and "watch" not in asked.query
        return listed(pod("succeeded")) if pods else others(asked)

    talk(script, lambda system: resume(JOB, launched(), system, observers=[Printer(out)]))
    assert printed == ["t: pending\nt: succeeded\n"]
    assert out.getvalue() == printed[0], "and not again"
