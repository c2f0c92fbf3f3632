"""The tracker fed with what the watches may see, in every order that cuts, relists and races can give."""

import datetime as dt

import pytest

from tests.unit.systems.kubernetes.objects import condition, pod, tfjob
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused
from tfsteps.runs.events import JobChanged, ReplicaChanged, ReplicaName, State, Verdict
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow.tracker import Tracker
from tfsteps.systems.kubernetes.follow.warning_events import WarningEvent

W0, W1 = ReplicaName("worker", 0), ReplicaName("worker", 1)
CANCELLED = Verdict(State.CANCELLED, "Stopped")


class Scenario:
    """A tracker of a job with two workers, and the events that it yields. The time between two observations is 1 s."""

    def __init__(self):
        self.tracker = Tracker(TFJob(), tfjob(), [W0, W1], created=0.0)
        self.now = 0.0
        self.events = []

    def job(self, *seen):
        return self._see(self.tracker.job, seen)

    def pods(self, *seen):
        return self._see(self.tracker.seen_pod, seen)

    def later(self, seconds):
        self.now += seconds
        self.events += self.tracker.state(self.now)
        return self

    def _see(self, handler, seen):
        for item in seen:
            self.now += 1
            self.events += handler(item, self.now)
        return self

    @property
    def states(self):
        """Return the job's states, in order."""
        return [str(item.state) for item in self.events if isinstance(item, JobChanged)]

    def replica(self, replica=W0):
        """Return (state, restarts) of all that was said about a replica, in order."""
        mine = [item for item in self.events if isinstance(item, ReplicaChanged) and item.replica == replica]
        return [(str(item.state), item.restarts) for item in mine]

    @property
    def final(self):
        end = self.tracker.final
        return end and (str(end.state), end.reason)


def running(replica="worker-0", uid="p1"):
    return Changed(pod("running", replica, uid))


def leaving(status, replica="worker-0", uid="p1"):
    """Return a pod that is being deleted."""
    item = pod(status, replica, uid)
    item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return item


def _epoch(second):
    return 1767225600.0 + second


def failed_at(second, replica, uid):
    """Return a pod that has failed, so many seconds after the start by the clock of its node."""
    finished = dt.datetime.fromtimestamp(_epoch(second), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": finished}}
    status = {"name": "tensorflow", "restartCount": 0, "state": state}
    return pod({"phase": "Failed", "containerStatuses": [status]}, replica, uid)


BOTH = (running("worker-0", "p0"), running("worker-1", "p1"))

# --- the job's state


def test_a_job_is_running_when_all_replicas_run_not_when_the_operator_reports_it():
    scenario = Scenario().job(Changed(tfjob("Created", "Running"))).pods(BOTH[0])
    assert scenario.states == ["pending"]
    assert scenario.pods(BOTH[1]).states == ["pending", "running"]


def test_pods_alone_give_no_state_of_a_job():
    scenario = Scenario().pods(*BOTH)
    assert scenario.states == []
    assert scenario.job(Changed(tfjob("Created"))).states == ["running"]


def test_a_worker_that_has_succeeded_already_counts_as_started():
    scenario = Scenario().job(Changed(tfjob("Created"))).pods(Changed(pod("succeeded", "worker-0", "p0")), BOTH[1])
    assert scenario.states[-1] == "running"


def test_a_state_is_reported_once():
    scenario = Scenario().job(*[Changed(tfjob("Created"))] * 3).pods(*BOTH, *BOTH)
    assert scenario.states == ["pending", "running"]
    assert scenario.replica() == [("running", 0)]


STUCK = [
    ("unschedulable", "Unschedulable"),
    ("image missing", "ImagePullBackOff"),
    ("secret missing", "CreateContainerConfigError"),
]


@pytest.mark.parametrize(("status", "reason"), STUCK)
def test_why_it_does_not_start(status, reason):
    scenario = Scenario().job(Changed(tfjob("Created"))).pods(BOTH[0], Changed(pod(status, "worker-1")))
    last = scenario.events[-1]
    assert (last.state, last.reason) == (State.PENDING, reason)
    assert last.message.startswith("worker-1: ")


def test_a_pod_that_is_stuck_after_the_job_ran_is_a_restart():
    scenario = Scenario().job(Changed(tfjob("Created"))).pods(*BOTH, Deleted(pod("running", "worker-1", "p1")))
    scenario.pods(Changed(pod("unschedulable", "worker-1", "p2")))
    assert scenario.states == ["pending", "running", "restarting", "restarting"]
    assert scenario.events[-1].reason == "Unschedulable"


def test_why_a_pod_does_not_start_is_told_while_the_operator_reports_a_restart():
    restarting = tfjob(condition("Restarting", reason="TFJobRestarting"))
    scenario = Scenario().job(Changed(restarting)).pods(running("worker-0", "p0"))
    assert (scenario.states, scenario.events[0].reason) == (["restarting"], "TFJobRestarting")
    scenario.pods(Changed(pod("unschedulable", "worker-1", "p2")))
    assert (scenario.states, scenario.events[-1].reason) == (["restarting", "restarting"], "Unschedulable")
    scenario.pods(running("worker-1", "p2"))
    assert scenario.states == ["restarting"] * 3
    assert scenario.events[-1].reason == "TFJobRestarting"


def short(scenario):
    return scenario.tracker.is_short()


def test_a_job_is_short_of_pods_until_each_replica_has_one_or_has_succeeded():
    scenario = Scenario()
    assert short(scenario)
    assert short(scenario.pods(BOTH[0]))
    assert not short(scenario.pods(BOTH[1]))
    assert short(scenario.pods(Deleted(pod("running", "worker-1", "p1"))))
    done = pod("succeeded", "worker-1", "p2")
    assert not short(scenario.pods(Changed(done), Deleted(done)))


def test_a_job_that_is_held_stopped_or_over_is_not_short():
    held = Scenario().job(Changed(tfjob("Suspended", suspend=True)))
    stopped, over = Scenario(), Scenario().job(Changed(tfjob("Failed")))
    stopped.tracker.object.stopping = CANCELLED
    assert not any(map(short, (held, stopped, over)))


def test_the_reason_for_missing_pods_is_reported_while_some_are_missing():
    scenario = Scenario().job(Changed(tfjob("Created")))
    scenario.tracker.warning = WarningEvent("FailedCreatePod", "exceeded quota")
    scenario.later(1).pods(BOTH[0]).later(100)
    assert scenario.states == ["pending", "pending"]
    assert [item.message for item in scenario.events if isinstance(item, JobChanged)] == ["", "exceeded quota"]
    assert scenario.pods(BOTH[1]).states[-1] == "running"
    assert scenario.pods(Deleted(pod("running", "worker-1", "p1"))).states[-1] == "restarting"


def test_suspended_and_resumed():
    scenario = (
        Scenario().job(Changed(tfjob("Created", "Suspended", suspend=True))).job(Changed(tfjob("Created"))).pods(*BOTH)
    )
    assert scenario.states == ["suspended", "pending", "running"]


def test_nobody_looks_at_the_job():
    scenario = Scenario().job(Listed([tfjob()])).later(59)
    assert scenario.states == ["pending"]
    assert scenario.later(2).states == ["pending", "unknown"]
    assert scenario.job(Changed(tfjob("Created"))).states[-1] == "pending"


# --- the job's end

ENDS = {
    "succeeded": ([Changed(tfjob("Succeeded"))], ("succeeded", "TFJobSucceeded")),
    "failed": ([Changed(tfjob("Failed"))], ("failed", "TFJobFailed")),
    "the end seen in a list": ([Listed([tfjob("Succeeded")])], ("succeeded", "TFJobSucceeded")),
    "ended and deleted at once": ([Deleted(tfjob("Succeeded"))], ("succeeded", "TFJobSucceeded")),
    "deleted while it ran": ([Changed(tfjob("Running")), Deleted(tfjob("Running"))], ("lost", "Deleted")),
    "gone from the list: by its time to live": ([Changed(tfjob("Running")), Listed([])], ("lost", "Deleted")),
    "replaced, seen in a list": ([Listed([tfjob("Running", uid="u2")])], ("lost", "Replaced")),
    "replaced, seen in the watch": ([Changed(tfjob("Succeeded", uid="u2"))], ("lost", "Replaced")),
    "deleted, then replaced": ([Deleted(tfjob()), Changed(tfjob(uid="u2"))], ("lost", "Deleted")),
    "an older one of its name was deleted": ([Deleted(tfjob("Failed", uid="u0"))], None),
    "a second end does not count": (
        [Changed(tfjob("Succeeded")), Changed(tfjob("Failed"))],
        ("succeeded", "TFJobSucceeded"),
    ),
    "deleted after its end": ([Changed(tfjob("Failed")), Deleted(tfjob("Failed"))], ("failed", "TFJobFailed")),
}


@pytest.mark.parametrize(("seen", "final"), ENDS.values(), ids=ENDS)
def test_end(seen, final):
    assert Scenario().job(*seen).final == final


def test_who_deleted_a_job_is_not_known():
    end = Scenario().job(Changed(tfjob("Running")), Deleted(tfjob("Running"))).tracker.final
    assert end.message == "The job object was deleted, not by this launcher; by whom is not known."


def test_a_node_whose_clock_is_behind_does_not_make_a_later_failure_the_first():
    scenario = Scenario().job(Changed(tfjob("Running"))).pods(*BOTH)
    scenario.now = _epoch(100)
    first = failed_at(100, "worker-0", "p0")
    scenario.pods(Changed(first))
    scenario.now = _epoch(119)  # a list after a cut watch has another pod of worker-1
    scenario.pods(Listed([first, failed_at(-180, "worker-1", "p2")])).job(Changed(tfjob("Failed")))
    assert scenario.tracker.final.replica == W0


STOPS = {
    "deleted": ([Deleted(tfjob("Running"))], ("cancelled", "Stopped")),
    "gone from the list": ([Listed([])], ("cancelled", "Stopped")),
    "it had succeeded first": ([Deleted(tfjob("Succeeded"))], ("succeeded", "TFJobSucceeded")),
    "it had failed first": ([Changed(tfjob("Failed")), Deleted(tfjob("Failed"))], ("failed", "TFJobFailed")),
    "replaced": ([Changed(tfjob(uid="u2"))], ("lost", "Replaced")),
}


@pytest.mark.parametrize(("seen", "final"), STOPS.values(), ids=STOPS)
def test_end_while_we_stop_it(seen, final):
    scenario = Scenario().pods(*BOTH)
    scenario.tracker.object.stopping = CANCELLED
    assert scenario.job(*seen).final == final


def test_no_state_is_reported_after_the_end():
    scenario = Scenario().pods(*BOTH).job(Changed(tfjob("Succeeded")))
    before = scenario.states
    scenario.job(Changed(tfjob("Running")), Listed([])).pods(Listed([])).later(100)
    assert scenario.states == before
    assert scenario.final == ("succeeded", "TFJobSucceeded")


def test_we_may_not_look_at_the_job():
    with pytest.raises(LaunchError, match="job was not stopped, but cannot be watched any more: no") as caught:
        Scenario().job(Refused("no", 403))
    assert caught.value.retryable


def test_we_may_not_look_at_the_pods():
    assert Scenario().pods(Refused("no", 403)).job(Changed(tfjob("Succeeded"))).final == ("succeeded", "TFJobSucceeded")


# --- replicas


REPLICAS = {
    "runs and succeeds": ([running(), Changed(pod("succeeded"))], [("running", 0), ("succeeded", 0)]),
    "fails": ([running(), Changed(pod("out of memory"))], [("running", 0), ("failed", 0)]),
    "restarted in place": (
        [running(), Changed(pod("about to restart")), Changed(pod("crash loop"))],
        [("running", 0), ("failed", 0), ("failed", 2), ("failed", 3), ("restarting", 3)],
    ),
    "deleted while it ran": ([running(), Deleted(pod("running"))], [("running", 0), ("failed", 0)]),
    "gone from the list while it ran": ([running(), Listed([])], [("running", 0), ("failed", 0)]),
    "deleted after its end": ([Changed(pod("succeeded")), Deleted(pod("succeeded"))], [("succeeded", 0)]),
    "its end is seen only as it is deleted": (
        [running(), Deleted(pod("succeeded"))],
        [("running", 0), ("succeeded", 0)],
    ),
    "made again under its name": (
        [running(), Deleted(pod("running")), Changed(pod({}, uid="p2")), running(uid="p2")],
        [("running", 0), ("failed", 0), ("pending", 1), ("running", 1)],
    ),
    "made again between two lists": (
        [running(), Listed([pod("running", uid="p2")])],
        [("running", 0), ("failed", 0), ("running", 1)],
    ),
    "the new one is seen before the old one is gone": (
        [running(), running(uid="p2"), Deleted(pod("running"))],
        [("running", 0), ("failed", 0), ("running", 1)],
    ),
    "word of the old one comes late": (
        [running(), running(uid="p2"), Changed(pod("out of memory"))],
        [("running", 0), ("failed", 0), ("running", 1)],
    ),
    "its end is listed before the watch says that it runs": (
        [Listed([pod("succeeded")]), running()],
        [("succeeded", 0)],
    ),
    "gone, and never seen": ([Deleted(pod("running"))], [("running", 0), ("failed", 0)]),
    "another role's pod": ([Changed(pod("running", "ps-0"))], []),
    "an index that was not asked for": ([Changed(pod("running", "worker-7"))], []),
}


@pytest.mark.parametrize(("seen", "expected"), REPLICAS.values(), ids=REPLICAS)
def test_replica(seen, expected):
    assert Scenario().pods(*seen).replica() == expected


def test_pods_without_labels_are_nobodys():
    stranger = pod("running")
    del stranger["metadata"]["labels"]
    assert Scenario().pods(Listed([stranger]), Deleted(stranger)).replica() == []


def test_a_pod_that_we_took_away_has_not_failed():
    scenario = Scenario().pods(*BOTH)
    scenario.tracker.object.stopping = CANCELLED
    assert scenario.pods(Deleted(pod("running", uid="p0"))).replica()[-1] == ("stopped", 0)


@pytest.mark.parametrize(
    "seen",
    [
        [Changed(leaving("running", uid="p0")), Changed(leaving("out of memory", uid="p0")), running(uid="p2")],
        [Changed(leaving("out of memory", uid="p0")), running(uid="p2")],
        [running(uid="p2"), Deleted(leaving("running", uid="p0"))],
        [Listed([pod("running", uid="p2")])],
    ],
)
def test_a_pod_that_an_operator_makes_while_the_job_is_being_stopped_is_no_restart(seen):
    scenario = Scenario().pods(*BOTH)
    scenario.tracker.object.stopping = CANCELLED
    scenario.pods(*seen, Changed(leaving("running", uid="p2")), Changed(leaving("out of memory", uid="p2")))
    assert "failed" not in dict(scenario.replica())
    assert (scenario.replica()[-1], scenario.tracker.restarts) == (("stopped", 0), 0)


def test_a_pod_that_was_replaced_before_its_end_has_a_reason():
    scenario = Scenario().pods(*BOTH, Changed(leaving("running", uid="p0")), running(uid="p2"))
    assert scenario.replica() == [("running", 0), ("failed", 0), ("running", 1)]
    failed = next(item for item in scenario.events if isinstance(item, ReplicaChanged) and item.state == "failed")
    assert (failed.reason, failed.exit_code, failed.place) == ("PodDeleted", None, "job-worker-0")


def test_restarts_before_a_job_was_stopped_count():
    scenario = Scenario().pods(*BOTH, Changed(leaving("running", uid="p0")), running(uid="p2"))
    scenario.tracker.object.stopping = CANCELLED
    scenario.pods(Changed(leaving("out of memory", uid="p0")), Changed(leaving("running", uid="p2")))
    assert (scenario.replica()[-1], scenario.tracker.restarts) == (("stopped", 1), 1)


@pytest.mark.parametrize("status", ["out of memory", "about to restart"])
def test_a_replica_that_failed_before_its_job_was_stopped_has_failed(status):
    scenario = Scenario().pods(*BOTH, Changed(pod(status, uid="p0")))
    scenario.tracker.object.stopping = CANCELLED
    assert scenario.pods(Changed(leaving(status, uid="p0"))).replica()[-1][0] == "failed"


def test_a_replica_that_crashes_again_and_again_until_its_job_is_stopped_has_failed():
    scenario = Scenario().pods(*BOTH, Changed(pod("crash loop", uid="p0")))
    scenario.tracker.object.stopping = CANCELLED
    scenario.pods(Changed(leaving("crash loop", uid="p0")), Changed(leaving("out of memory", uid="p0")))
    assert scenario.replica()[-1][0] == "failed"


def test_a_pod_that_is_taken_away_after_the_end_has_not_failed():
    scenario = Scenario().pods(*BOTH).job(Changed(tfjob("Succeeded")))
    assert scenario.pods(Deleted(pod("running", uid="p0"))).replica()[-1] == ("stopped", 0)


def test_restarts_add_up_over_replicas_and_pods():
    scenario = Scenario().pods(Changed(pod("crash loop", "worker-0", "p0")), running("worker-1", "p1"))
    scenario.pods(Deleted(pod("running", "worker-1", "p1")), running("worker-1", "p2"))
    assert scenario.tracker.restarts == 3 + 1


def test_who_failed_first_is_the_culprit():
    scenario = Scenario().pods(
        *BOTH, Changed(pod("out of memory", "worker-1", "p1")), Deleted(pod("running", uid="p0"))
    )
    assert scenario.job(Changed(tfjob("Failed"))).tracker.final.replica == W1


def test_nobody_failed_nobody_is_blamed():
    assert Scenario().pods(*BOTH).job(Changed(tfjob("Failed"))).tracker.final.replica is None


def test_the_exit_code_and_the_reason_are_passed_on():
    scenario = Scenario().pods(running(), Changed(pod("out of memory")))
    assert (scenario.events[-1].exit_code, scenario.events[-1].reason) == (137, "OOMKilled")


def test_a_pod_withdrawn_because_the_job_was_suspended_has_not_failed_and_its_next_one_is_no_restart():
    deleting = pod({"phase": "Failed"}, uid="p1")
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    scenario = Scenario().pods(running()).job(Changed(tfjob("Suspended", suspend=True))).pods(Changed(deleting))
    scenario.job(Changed(tfjob("Created"))).pods(Deleted(deleting), running(uid="p2"))
    assert scenario.replica() == [("running", 0), ("stopped", 0), ("running", 0)]
    assert scenario.tracker.restarts == 0


@pytest.mark.parametrize("order", ["one by one", "in a list", "the next pod first"])
def test_pods_of_a_suspension_that_end_after_it_count_no_restart(order):
    deleting = pod({"phase": "Failed"}, uid="p1")
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    scenario = Scenario().pods(running()).job(Changed(tfjob("Suspended", suspend=True))).job(Changed(tfjob("Created")))
    match order:
        case "one by one":
            scenario.pods(Changed(deleting), Deleted(deleting), running(uid="p2"))
        case "in a list":
            scenario.pods(Listed([pod("running", uid="p2")]))
        case _:
            scenario.pods(running(uid="p2"), Changed(deleting), Deleted(deleting))
    assert scenario.replica() == [("running", 0), ("stopped", 0), ("running", 0)]
    assert scenario.tracker.restarts == 0


def test_replicas_that_the_job_ended_without_are_stopped():
    scenario = Scenario().pods(*BOTH, Changed(pod("succeeded", "worker-0", "p0"))).job(Changed(tfjob("Succeeded")))
    scenario.events += scenario.tracker.stop_remaining(scenario.now)
    assert (scenario.replica(W0)[-1], scenario.replica(W1)[-1]) == (("succeeded", 0), ("stopped", 0))


@pytest.mark.parametrize(
    ("seen", "stopping", "state"),
    [
        ([tfjob("Failed")], None, "unknown"),
        ([tfjob("Created"), tfjob("Failed")], None, "stopped"),
        ([tfjob("Created")], CANCELLED, "stopped"),
        ([], CANCELLED, "stopped"),
    ],
    ids=["ended before the first look", "watched", "watched and stopped", "stopped before the first look"],
)
def test_replicas_that_never_had_a_pod_are_stopped_unless_they_may_have_had_one(seen, stopping, state):
    scenario = Scenario().job(*map(Changed, seen))
    scenario.tracker.object.stopping = stopping
    scenario.job(Deleted(tfjob("Created")))
    scenario.events += scenario.tracker.stop_remaining(scenario.now)
    assert scenario.replica(W1) == [(state, 0)]


@pytest.mark.parametrize(
    ("first", "end", "states"),
    [
        ("succeeded", "Succeeded", ("succeeded", "stopped")),
        ("out of memory", "Failed", ("failed", "stopped")),
    ],
)
def test_replicas_that_the_operator_ends_before_it_reports_the_jobs_end_are_stopped(first, end, states):
    scenario = Scenario().pods(
        running("worker-0", "p0"), running("worker-1", "p1"), Changed(pod(first, "worker-0", "p0"))
    )
    scenario.pods(Changed(leaving("running", "worker-1", "p1")), Deleted(leaving("out of memory", "worker-1", "p1")))
    assert scenario.replica(W1)[-1][0] == "failed"
    scenario.job(Changed(tfjob(end)))
    scenario.events += scenario.tracker.stop_remaining(scenario.now)
    assert (scenario.replica(W0)[-1][0], scenario.replica(W1)[-1][0]) == states


def test_the_replica_whose_deletion_failed_the_job_has_failed():
    scenario = Scenario().pods(running("worker-0", "p0"), running("worker-1", "p1"))
    scenario.pods(Changed(leaving("running", "worker-1", "p1")), Deleted(leaving("running", "worker-1", "p1")))
    scenario.job(Changed(tfjob("Failed")))
    scenario.events += scenario.tracker.stop_remaining(scenario.now)
    assert (scenario.replica(W0)[-1][0], scenario.replica(W1)[-1][0]) == ("stopped", "failed")


def test_a_deleted_replica_may_be_the_cause_of_a_failure_that_was_seen_before_it():
    scenario = Scenario().pods(running("worker-0", "p0"), running("worker-1", "p1"))
    scenario.pods(Changed(leaving("running", "worker-1", "p1"))).job(Changed(tfjob("Failed")))
    scenario.pods(Deleted(leaving("out of memory", "worker-1", "p1")))
    scenario.events += scenario.tracker.stop_remaining(scenario.now)
    assert scenario.tracker.final.replica is None
    assert (scenario.replica(W0)[-1][0], scenario.replica(W1)[-1][0]) == ("stopped", "failed")


def test_a_suspension_that_is_seen_only_after_the_end_of_its_pod_explains_it():
    ended = leaving("out of memory")
    scenario = Scenario().pods(running(), Changed(leaving("running")), Changed(ended), Deleted(ended))
    scenario.job(Changed(tfjob("Suspended", suspend=True))).job(Changed(tfjob("Created"))).pods(running(uid="p2"))
    assert scenario.replica()[-2:] == [("stopped", 0), ("running", 0)]
    assert scenario.tracker.restarts == 0
