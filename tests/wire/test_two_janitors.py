"""Two janitors at once on one API server that really deletes: each object goes once, and neither one fails."""

import contextlib
import copy
import itertools
import threading

import pytest

from tests.unit.janitor.api_server import FakeApiServer
from tests.unit.janitor.test_untrusted_objects import FLOWS, JOBS, PODS, job, pod, workflow
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.engines.argo.workflow_objects import Workflows
from tfsteps.janitor.sweep import Sweep
from tfsteps.kube.client import Api
from tfsteps.systems.kubeflow.tfjob import TFJob

GONE = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "gone"}


@pytest.fixture(autouse=True)
def _separate_locks(monkeypatch):
    """Two janitors are two processes, but Python 3.11 has one lock for a property of all objects."""
    for owner, name in ((Workflows, "_steps"), (Sweep, "_all_pods")):
        monkeypatch.setattr(vars(owner)[name], "lock", contextlib.nullcontext(), raising=False)


class Cluster(FakeApiServer):
    """An API server that removes what is deleted, and refuses another uid, as the real one does."""

    def __init__(self, objects, recreates=False):
        super().__init__(objects)
        self.recreates = recreates

    def _one(self, asked, stored):
        if asked.method != "DELETE" or not stored:
            return super()._one(asked, stored) if stored else refusal(404, "NotFound", about=asked.path.split("/")[-1])
        meta, uid = stored[0]["metadata"], asked.body["preconditions"]["uid"]
        if uid != meta["uid"]:
            return refusal(409, "Conflict", f"Precondition failed: UID in precondition: {uid}, UID: {meta['uid']}")
        self.deleted.append(uid)
        for items in self.objects.values():
            items[:] = [item for item in items if item["metadata"]["uid"] != uid]
        if self.recreates and stored[0]["kind"] == "TFJob":  # a retry makes a job of the same name
            self.objects[JOBS].append(job(meta["name"], owner={**GONE, "uid": "w"}))
            self.objects[JOBS][-1]["metadata"]["uid"] = f"new-{meta['name']}"
        return Answer(body={"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})


def make_cluster(recreates=False):
    """Return two abandoned jobs, a job whose pods are due, and a job that continues."""
    done = job("done", owner=GONE, state="Succeeded")
    jobs = [job("a", owner=GONE), done, job("b", owner=GONE), job("healthy", owner={**GONE, "uid": "w"})]
    pods = [pod(done, "p0", 0), pod(done, "p1", 1)]
    return Cluster({JOBS: jobs, PODS: pods, FLOWS: [workflow()]}, recreates)


DUE = ["p0", "p1", "uid-b-a", "uid-b-b"]


def sweep(server, lines):
    return Sweep(Api(server.access(), patience=0), [TFJob()], "", lines.append).run()


def requests_of_one_pass():
    cluster = make_cluster()
    with serve(cluster.answer) as server:
        sweep(server, [])
    return len(cluster.asked)


@pytest.mark.parametrize("recreates", [False, True], ids=["gone", "recreated"])
@pytest.mark.parametrize("number", range(requests_of_one_pass()))
def test_a_whole_pass_before_any_request_of_another(number, recreates):
    cluster, lines = make_cluster(recreates), []
    counts = []

    def answer(asked):
        if len(cluster.asked) == number and not counts:
            counts.append(None)
            counts[0] = sweep(server, lines)
        return cluster.answer(asked)

    with serve(answer) as server:
        counts.append(sweep(server, lines))
    check(cluster, counts, lines)


@pytest.mark.parametrize("order", ["".join(order) for order in itertools.product("12", repeat=4)])
def test_two_passes_request_by_request(order):
    """The requests of both are answered in turns: `order` repeats, and who has ended is left out."""
    cluster, turns = make_cluster(), threading.Condition()
    running, sequence = {"1", "2"}, itertools.cycle(order + "12")
    state = {"turn": next(sequence)}

    def advance():
        state["turn"] = next((turn for turn in itertools.islice(sequence, 20) if turn in running), "")
        turns.notify_all()

    def answer(asked):
        with turns:
            assert turns.wait_for(lambda: state["turn"] in ("", asked.token), 60)
            answered = copy.deepcopy(cluster.answer(asked))
            advance()
            return answered

    def janitor(name):
        access = server.access(token=name)
        counts.append(Sweep(Api(access, patience=0), [TFJob()], "", lines.append).run())
        with turns:
            running.discard(name)
            if state["turn"] == name:
                advance()

    counts, lines = [], []
    with serve(answer) as server:
        threads = [threading.Thread(target=janitor, args=(name,)) for name in "12"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    check(cluster, counts, lines)


def check(cluster, counts, lines):
    """What is due was deleted once, whoever did it; nothing else was, and nothing failed."""
    assert sorted(cluster.deleted) == DUE
    assert [count.failures for count in counts] == [0, 0], lines
    assert [count.undeleted for count in counts] == [set(), set()]
    assert sum(sum(count.deletions.values()) for count in counts) == len(DUE)
    assert len([line for line in lines if " deleted: " in line]) == len(DUE)
    left = {item["metadata"]["uid"] for item in cluster.objects[JOBS]}
    assert {"uid-b-done", "uid-b-healthy"} <= left
    assert not left & set(DUE)
