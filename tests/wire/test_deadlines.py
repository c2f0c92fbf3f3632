"""The deadlines of a job on a cluster: whatever clocks, old logs and outages say, a healthy job is not ended."""

import datetime as dt
import pathlib
import threading
import time

import pytest

from tests.support.waiting import until
from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.launcher import deadlines
from tfsteps.launcher.lifecycle import first_status, resume
from tfsteps.runs.events import PartialLine, State, Tick
from tfsteps.runs.identity import Identity
from tfsteps.systems import kubeflow
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow.job import KubernetesJob

VERSION = {"resourceVersion": "1"}
MINUTES, HOURS = 60.0, 3600.0


def job(**deadlines):
    return spec.from_plain({"name": "job", "image": "t:1", "roles": {"worker": {}}, "deadlines": deadlines})


def stamped(seconds, text=""):
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") + text


class Cluster:
    """A running TFJob of one pod, which ends when it is told to, or is deleted.

    Attributes:
        ended: Set it, and the job has succeeded.
        away: While it is set, every question is answered with 503.
        unreadable: While it is set, and the job runs, its log cannot be read.
        deleted: Set when the job is deleted.
    """

    def __init__(self, age=0.0, ahead=0.0, log=()):
        self.ended, self.away, self.deleted = threading.Event(), threading.Event(), threading.Event()
        self.unreadable = threading.Event()
        self._item = tfjob("Running")
        self._item["metadata"]["creationTimestamp"] = stamped(time.time() + ahead - age)
        self._log = log

    def script(self, asked):
        if asked.method == "DELETE":
            if "tfjobs" in asked.path:
                self.deleted.set()
            return Answer(body={})
        if self.away.is_set():
            return refusal(503)
        if asked.path.endswith("/log"):
            if self.unreadable.is_set() and not self.ended.is_set():
                return refusal(500, message="dial tcp 10.0.0.7:10250: connect: no route to host")
            return Answer(parts=self._printed() if asked.query["follow"] == "true" else [], body=b"")
        if "watch" in asked.query:
            return Answer(parts=self._changes() if "tfjobs" in asked.path else ["hang"])
        return self._asked_now(asked)

    def _asked_now(self, asked):
        if asked.path.endswith("/tfjobs/job"):
            return refusal(404, "NotFound", about="job") if self.deleted.is_set() else Answer(body=self._now())
        return Answer(body={"metadata": VERSION, "items": self._items("tfjobs" in asked.path)})

    def _items(self, jobs):
        if not jobs:
            return [pod("running")]
        return [] if self.deleted.is_set() else [self._now()]

    def _now(self):
        return {**tfjob("Succeeded" if self.ended.is_set() else "Running"), "metadata": self._item["metadata"]}

    def _printed(self):
        yield from self._log
        self._wait()

    def _wait(self):
        until(lambda: any(event.is_set() for event in (self.ended, self.away, self.deleted)))

    def _changes(self):
        """Say the job's end when it comes, or break off."""
        self._wait()
        if not self.away.is_set():
            yield {"type": "DELETED" if self.deleted.is_set() else "MODIFIED", "object": self._now()}


@pytest.fixture
def follow(monkeypatch):
    """Return a function that follows a cluster's job to its end, meanwhile calling something with the server."""

    def run(cluster, deadlines, meanwhile, ahead=0.0):
        with serve(cluster.script) as server:
            server.ahead = ahead
            monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
            monkeypatch.setattr(access, "find", lambda _context: server.access())
            training_job, who, system = job(**deadlines), Identity(run="r", task="t"), kubeflow.PLUGIN.system()
            first = first_status(
                training_job, who, system, system.output_paths(training_job, who, pathlib.Path("/")), ""
            )
            first.job, first.uid, first.namespace = "job", "u1", "ns"
            threading.Thread(target=meanwhile, args=[server], daemon=True).start()
            return resume(training_job, first, system)

    return run


@pytest.mark.parametrize(
    "log",
    [
        [stamped(time.time() - 2 * HOURS, " listening\n").encode()],
        [stamped(time.time() + 3 * HOURS, " from tomorrow\n").encode()],
        [b"rpc error: no stamp\n"],
        [b"1970-01-01T00:00:00Z the clock is not set\n"],
    ],
    ids=["hours ago", "hours ahead", "none", "1970"],
)
def test_the_stamp_of_a_line_ends_no_job(log, follow):
    cluster = Cluster(age=2 * HOURS, log=log)

    def meanwhile(server):
        until(lambda: any(asked.path.endswith("/log") for asked in server.asked))
        cluster.deleted.wait(2)
        cluster.ended.set()

    status = follow(cluster, {"running": "15m", "no_progress": "10m"}, meanwhile)
    assert (status.state, cluster.deleted.is_set()) == (State.SUCCEEDED, False), status.message


def test_a_wrong_log_limit_is_a_warning_for_a_job_that_exists(follow, monkeypatch):
    monkeypatch.setenv("TFSTEPS_LOG_LIMIT", "much")
    cluster = Cluster()
    status = follow(cluster, {}, lambda _server: cluster.ended.set())
    assert status.state is State.SUCCEEDED
    (warning,) = [warning for warning in status.warnings if "TFSTEPS_LOG_LIMIT" in warning]
    assert warning.startswith("TFSTEPS_LOG_LIMIT='much' is not a size; allowed: ")
    assert warning.endswith(". The default is used.")


def test_time_in_which_the_api_server_is_away_does_not_count(follow):
    cluster = Cluster()

    def meanwhile(server):
        until(lambda: [asked for asked in server.asked if "watch" in asked.query][1:])
        cluster.away.set()
        time.sleep(4)
        cluster.ended.set()
        cluster.away.clear()

    status = follow(cluster, {"running": "3s", "no_progress": "3s"}, meanwhile)
    assert (status.state, cluster.deleted.is_set()) == (State.SUCCEEDED, False), status.message


def test_time_in_which_the_log_cannot_be_read_is_not_without_progress(follow):
    cluster = Cluster()
    cluster.unreadable.set()

    def meanwhile(server):
        until(lambda: any(asked.path.endswith("/log") for asked in server.asked))
        cluster.deleted.wait(4)
        cluster.ended.set()

    status = follow(cluster, {"no_progress": "2s"}, meanwhile)
    assert (status.state, cluster.deleted.is_set()) == (State.SUCCEEDED, False), status.message


class Suspended(Cluster):
    """A running TFJob that is suspended when it is watched; by its queue, if it has one.

    Attributes:
        resumed: Set it, and the job runs again.
    """

    def __init__(self, queue=""):
        super().__init__()
        self._item["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        self.resumed, self._watched = threading.Event(), threading.Event()

    def _now(self):
        held = self._watched.is_set() and not self.resumed.is_set()
        return {**super()._now(), "spec": {"runPolicy": {"suspend": held}, "tfReplicaSpecs": {}}}

    def _changes(self):
        self._watched.set()
        yield {"type": "MODIFIED", "object": self._now()}
        until(lambda: self.resumed.is_set() or self.deleted.is_set())
        yield {"type": "MODIFIED", "object": self._now()}
        yield from super()._changes()


@pytest.mark.parametrize(("queue", "state"), [("", State.SUSPENDED), ("research", State.QUEUED)])
def test_time_in_which_a_job_is_paused_or_suspended_by_its_queue_counts_for_total_alone(queue, state, follow):
    cluster = Suspended(queue)

    def meanwhile(_server):
        cluster.deleted.wait(5)
        cluster.resumed.set()
        cluster.deleted.wait(0.5)
        cluster.ended.set()

    status = follow(cluster, dict.fromkeys(("queue", "pending", "running", "no_progress"), "3s"), meanwhile)
    assert (status.state, cluster.deleted.is_set()) == (State.SUCCEEDED, False), status.message
    assert state in [transition.state for transition in status.transitions]
    status = follow(Suspended(queue), {"total": "2s"}, lambda _server: None)
    assert status.message.startswith("Deadline `total` passed after 2s."), status.message


class Killing(Cluster):
    """A cluster whose operator sees the pods of a deleted job end, and reports that as the job's failure first."""

    def _now(self):
        return {**tfjob("Failed" if self.deleted.is_set() else "Running"), "metadata": self._item["metadata"]}

    def _changes(self):
        yield from ({**change, "type": "MODIFIED"} for change in super()._changes())


def test_a_job_that_fails_because_it_is_ended_has_passed_its_deadline(follow):
    status = follow(Killing(), {"running": "1s"}, lambda _server: None)
    assert (status.state, status.reason) == (State.FAILED, "DeadlineExceeded")
    assert status.message.startswith("Deadline `running` passed after 1s.")


@pytest.mark.parametrize("ahead", [0, 3 * HOURS, -15 * MINUTES, -2e9])
def test_the_age_of_an_adopted_job_is_taken_from_the_servers_clock_alone(ahead, follow):
    cluster = Cluster(age=2 * HOURS, ahead=ahead)
    status = follow(cluster, {"total": "1h"}, lambda _: None, ahead)
    assert (status.reason, cluster.deleted.is_set()) == ("DeadlineExceeded", True)
    assert "`total` passed after 1h" in status.message
    cluster = Cluster(age=2 * HOURS, ahead=ahead)

    def meanwhile(server):
        until(lambda: any(asked.path.endswith("/log") for asked in server.asked))
        cluster.deleted.wait(2)
        cluster.ended.set()

    assert follow(cluster, {"total": "130m"}, meanwhile, ahead).state is State.SUCCEEDED


def test_a_new_job_has_no_age():
    with serve(Cluster().script) as server:
        api = Api(server.access())
        assert api.server_time() is None
        api.request("GET", "/pods")
        item = tfjob()
        item["metadata"]["creationTimestamp"] = stamped(time.time())
        assert KubernetesJob(api, TFJob(), item, job(), None).age == 0
        item["metadata"]["creationTimestamp"] = stamped(time.time() + HOURS)
        assert KubernetesJob(api, TFJob(), item, job(), None).age == 0


def test_an_unfinished_line_is_reported_and_ticks_continue_during_a_flood_of_lines():
    stamp = stamped(time.time()).encode()
    flood = [b"".join(stamp + b" line %d\n" % number for number in range(part, part + 50)) for part in range(200)]
    paced = [item for part in flood for item in (part, 0.02)]
    cluster = Cluster(log=[*paced, stamp + b"  1%\r 45%"])
    ticks = 0
    with serve(cluster.script) as server:
        handle = KubernetesJob(Api(server.access()), TFJob(), tfjob(), job(), None)
        for event in handle.events():
            ticks += isinstance(event, Tick)
            if isinstance(event, PartialLine) and event.text == b" 45%":
                cluster.ended.set()
    assert ticks >= 4, "in four seconds of lines without a pause"


class Pending(Cluster):
    """A TFJob whose pods nobody makes."""

    def _items(self, jobs):
        return super()._items(jobs) if jobs else []

    def _now(self):
        return {**tfjob("Succeeded" if self.ended.is_set() else "Created"), "metadata": self._item["metadata"]}


def test_a_job_that_stays_pending_is_reported_and_goes_on(follow, monkeypatch):
    monkeypatch.setattr(deadlines, "_NOTICE_SECONDS", 1.0)
    cluster = Pending()

    def wait(_server):
        time.sleep(3)
        cluster.ended.set()

    status = follow(cluster, {}, wait)
    assert status.state is State.SUCCEEDED
    transitions = [
        (item.state, item.message) for item in status.transitions if "Still pending after 1s" in item.message
    ]
    assert [state for state, _ in transitions] == [State.PENDING]
