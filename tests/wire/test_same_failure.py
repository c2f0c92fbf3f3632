"""A replica that its operator restarts fails alike again: the launcher ends the job, unless the job names a limit."""

import pathlib
import threading
import time

import pytest

from tests.support.waiting import until
from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.launcher.lifecycle import first_status, resume
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.systems import kubeflow

VERSION = {"resourceVersion": "1"}
AT = "2026-11-21T09:3{}:0{}Z"
TRACEBACK = ["Traceback (most recent call last):", '  File "train.py", line {line}, in <module>', "{error}"]


def ended(number):
    return {
        "terminated": {
            "exitCode": 1,
            "reason": "Error",
            "startedAt": AT.format(number, 1),
            "finishedAt": AT.format(number, 5),
        }
    }


def incarnation(number, state, phase="Running"):
    """Return the pod in its incarnation, which ran for four seconds if it has ended."""
    last = {"lastState": ended(number - 1)} if number else {}
    container = {"name": "tensorflow", "restartCount": number, "state": state, **last}
    scheduled = {"type": "PodScheduled", "status": "True"}
    item = pod({"phase": phase, "conditions": [scheduled], "containerStatuses": [container]})
    return {**item, "metadata": {**item["metadata"], **VERSION}}


class Cluster:
    """A TFJob of one pod, whose program raises each of `errors` in turn, and then runs on until the job is deleted."""

    def __init__(self, *errors):
        self.errors, self.deleted = errors, threading.Event()
        self.number = 0  # of the incarnation that runs

    def script(self, asked):
        if asked.method == "DELETE":
            if "tfjobs" in asked.path:
                self.deleted.set()
            return Answer(body={})
        if asked.path.endswith("/log"):
            return Answer(body=self._log(int(asked.query.get("previous") == "true")))
        jobs = "tfjobs" in asked.path
        if "watch" in asked.query:
            return Answer(parts=self._job() if jobs else self._pod())
        if asked.path.endswith("/tfjobs/job"):
            return refusal(404, "NotFound", about="job") if self.deleted.is_set() else Answer(body=tfjob("Running"))
        gone = [] if self.deleted.is_set() else [tfjob("Running")]
        return Answer(body={"metadata": VERSION, "items": gone if jobs else [self._now()]})

    def _now(self):
        return incarnation(self.number, {"running": {"startedAt": AT.format(self.number, 1)}})

    def _log(self, before):
        number = self.number - before
        if number >= len(self.errors):
            return b""
        line, error = self.errors[number]
        texts = [text.format(line=line, error=error) for text in TRACEBACK]
        return "".join(
            f"{AT.format(number, 2)[:-1]}.{place}00000000Z {text}\n" for place, text in enumerate(texts)
        ).encode()

    def _job(self):
        until(self.deleted.is_set)
        yield {"type": "DELETED", "object": {**tfjob("Running")}}

    def _pod(self):
        for number in range(len(self.errors)):
            time.sleep(1.5)
            yield {"type": "MODIFIED", "object": incarnation(number, ended(number))}
            time.sleep(1.5)
            self.number = number + 1
            yield {"type": "MODIFIED", "object": self._now()}
        until(self.deleted.is_set)


@pytest.fixture
def follow(monkeypatch):
    def run(cluster, **fields):
        job = spec.from_plain(
            {"name": "job", "image": "t:1", "roles": {"worker": {}}, "restart": "on_failure", **fields}
        )
        with serve(cluster.script) as server:
            monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
            monkeypatch.setattr(access, "find", lambda _context: server.access())
            who, system = Identity(run="r", task="t"), kubeflow.PLUGIN.system()
            first = first_status(job, who, system, system.output_paths(job, who, pathlib.Path("/")), "")
            first.job, first.uid, first.namespace = "job", "u1", "ns"
            return resume(job, first, system)

    return run


SAME = (7, "ValueError: no data")


def test_the_same_exception_twice_ends_the_job(follow):
    cluster = Cluster(SAME, SAME, SAME)
    threading.Timer(40, cluster.deleted.set).start()
    status = follow(cluster)
    assert (status.state, status.reason) == (State.FAILED, "SameFailure")
    assert status.message == "worker-0 ended with exit code 1, twice by the same exception at the same place."
    assert (status.failure.replica, status.failure.exception) == ("worker-0", "ValueError: no data")
    assert status.failure.fault == "user"


@pytest.mark.parametrize(
    "errors",
    [
        (SAME, (8, "ValueError: no data")),
        (SAME, (7, "ValueError: less data")),
        (SAME, (9, "OSError: another"), SAME),
    ],
    ids=["another place", "another exception", "not in succession"],
)
def test_another_failure_is_restarted(follow, errors):
    cluster = Cluster(*errors)
    threading.Timer(len(errors) * 3 + 6, cluster.deleted.set).start()
    status = follow(cluster)
    assert status.reason == "Deleted"


def test_restarts_that_the_job_names_are_used(follow):
    cluster = Cluster(SAME, SAME, SAME)
    threading.Timer(15, cluster.deleted.set).start()
    assert follow(cluster, backoff_limit=5).reason == "Deleted"
