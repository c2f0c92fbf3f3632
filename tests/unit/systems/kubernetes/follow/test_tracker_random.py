"""Random scenarios of a job and its pods, from the watches through the tracker to the deadlines."""

import copy
import random

from tests.unit.systems.kubernetes.objects import STATUSES, pod, tfjob
from tfsteps.kube.watch import Changed, Deleted, Listed
from tfsteps.launcher.deadlines import Clock
from tfsteps.runs.events import JobChanged, ReplicaChanged, ReplicaName, ReplicaState, State, Verdict
from tfsteps.spec import Deadlines
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow.tracker import Tracker

REPLICAS = [ReplicaName("worker", 0), ReplicaName("worker", 1)]
CONDITIONS = ["Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed"]


def some_pod(chance):
    """Return a pod of ours, of another replica, or with a status that no kubelet of today writes."""
    item = copy.deepcopy(pod(chance.choice(list(STATUSES)), f"worker-{chance.randrange(3)}", f"p{chance.randrange(5)}"))
    if chance.random() < 0.2:
        item["metadata"]["deletionTimestamp"] = chance.choice(["2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z"])
    if chance.random() < 0.1:
        item["status"] = chance.choice([{}, {"phase": "Unknown"}, {"phase": "Running", "containerStatuses": []}])
    return item


def some_job(chance):
    return tfjob(*chance.sample(CONDITIONS[:4], chance.randrange(3)))


def random_events(chance, tracker, now):
    """Yield the events that follow from one thing that a watch may see, or from a stop."""
    match chance.randrange(8):
        case 0:
            yield from tracker.job(Changed(some_job(chance)), now)
        case 1:
            yield from tracker.job(Listed([some_job(chance)]), now)
        case 2:
            yield from tracker.seen_pod(Listed([some_pod(chance) for _ in range(chance.randrange(4))]), now)
        case 3:
            yield from tracker.seen_pod(Deleted(some_pod(chance)), now)
        case 4 if chance.random() < 0.1:
            tracker.object.stopping = Verdict(State.CANCELLED, "Stopped")
        case _:
            yield from tracker.seen_pod(Changed(some_pod(chance)), now)


def test_random_scenarios():
    passed = set()
    for seed in range(300):
        passed |= deadlines_passed(random.Random(seed))
    assert passed == {"pending", "running", "no_progress", "total"}


def deadlines_passed(chance):
    """Run one random scenario; a deadline may pass only after its time in which the job could be seen."""
    limits = Deadlines(
        pending=chance.choice([None, 20.0]), running=20.0, no_progress=chance.choice([None, 5.0]), total=60
    )
    tracker, clock, passed = Tracker(TFJob(), tfjob(), REPLICAS, created=0.0), Clock(limits, 0.0), set()
    seconds, visible, ran = 0.0, False, False
    for now in range(1, chance.randrange(10, 200)):
        for event in random_events(chance, tracker, chance.uniform(-1e9, 1e12)) if chance.random() < 0.5 else ():
            assert isinstance(event, JobChanged | ReplicaChanged)
            assert not isinstance(event, ReplicaChanged) or (event.replica in REPLICAS and event.restarts >= 0)
            ran |= isinstance(event, JobChanged) and event.state is State.RUNNING
            clock.apply(event)
        sees = chance.random() < 0.8
        seconds, visible = seconds + (sees and visible), sees
        if exceeded := clock.tick(float(now), visible=sees):
            passed.add(exceeded.name)
            assert seconds > exceeded.limit
            assert exceeded.name != "running" or ran
    if tracker.final is None:
        list(tracker.job(Deleted(tfjob()), 0.0))
    assert all(change.state in ReplicaState for change in tracker.stop_remaining(0.0))
    return passed
