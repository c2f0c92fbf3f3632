"""What a TFJob says about its job: a case for each trap of its conditions."""

import pytest

from tests.unit.systems.kubernetes.objects import condition, tfjob
from tfsteps.runs.events import ReplicaName, State
from tfsteps.systems.kubeflow.tfjob import TFJob

OVER = condition("Running", "False")
CASES = {
    "no status at all": (tfjob(), State.PENDING, ""),
    "created only: the operator has seen it": (tfjob("Created"), State.PENDING, "Created"),
    "created and suspended by a person": (
        tfjob("Created", "Suspended", suspend=True),
        State.SUSPENDED,
        "TFJobSuspended",
    ),
    "suspended before the operator looked": (tfjob(suspend=True), State.SUSPENDED, ""),
    "resumed, the condition still there": (tfjob("Created", condition("Suspended", "False")), State.PENDING, "Created"),
    "suspended with a queue": (
        tfjob("Suspended", suspend=True, schedulingPolicy={"queue": "a"}),
        State.QUEUED,
        "TFJobSuspended",
    ),
    "a queue, and it runs": (tfjob("Running", schedulingPolicy={"queue": "a"}), State.RUNNING, ""),
    "running": (tfjob("Created", "Running"), State.RUNNING, ""),
    "restarting": (tfjob("Created", OVER, "Restarting"), State.RESTARTING, "TFJobRestarting"),
    "running again after a restart": (tfjob("Created", condition("Restarting", "False"), "Running"), State.RUNNING, ""),
    "succeeded, running is listed as over": (tfjob("Created", OVER, "Succeeded"), State.SUCCEEDED, "TFJobSucceeded"),
    "failed, running is listed as over": (tfjob("Created", OVER, "Failed"), State.FAILED, "TFJobFailed"),
    "failed before all replicas ran": (tfjob("Created", "Failed"), State.FAILED, "TFJobFailed"),
    "failed at the backoff limit": (
        tfjob(condition("Failed", message="Job x has failed because it has reached the specified backoff limit")),
        State.FAILED,
        "BackoffLimitExceeded",
    ),
    "failed at its activeDeadlineSeconds": (
        tfjob(condition("Failed", message="Job x has failed because it was active longer than specified deadline")),
        State.FAILED,
        "DeadlineExceeded",
    ),
    "both succeeded and failed": (tfjob("Created", "Succeeded", "Failed"), State.FAILED, "TFJobFailed"),
    "both, in the other order": (tfjob("Failed", "Succeeded"), State.FAILED, "TFJobFailed"),
    "succeeded is False": (tfjob("Running", condition("Succeeded", "False")), State.RUNNING, ""),
    "failed is False": (tfjob("Running", condition("Failed", "False")), State.RUNNING, ""),
    "failed is Unknown": (tfjob("Running", condition("Failed", "Unknown")), State.RUNNING, ""),
    "succeeded, then suspended": (tfjob("Succeeded", suspend=True), State.SUCCEEDED, "TFJobSucceeded"),
    "everything over": (tfjob(OVER, condition("Created", "False")), State.PENDING, ""),
}


@pytest.mark.parametrize(("item", "state", "reason"), CASES.values(), ids=CASES)
def test_verdict(item, state, reason):
    outcome = TFJob().verdict(item)
    assert (outcome.state, outcome.reason) == (state, reason)


def test_the_operators_message_is_passed_on():
    message = "TFJob ns/job has failed because 1 Worker replica(s) failed."
    assert TFJob().verdict(tfjob(condition("Failed", message=message))).message == message


def test_kueue_holds_a_job_back_by_a_label():
    item = tfjob("Suspended", suspend=True)
    item["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    assert TFJob().verdict(item).state is State.QUEUED


LABEL = "training.kubeflow.org/"


@pytest.mark.parametrize(
    ("labels", "replica"),
    [
        ({f"{LABEL}replica-type": "worker", f"{LABEL}replica-index": "3"}, ReplicaName("worker", 3)),
        ({f"{LABEL}replica-type": "ps", f"{LABEL}replica-index": "0", "more": "x"}, ReplicaName("ps", 0)),
        ({f"{LABEL}replica-type": "launcher", f"{LABEL}replica-index": "0"}, None),
        ({f"{LABEL}replica-type": "worker"}, None),
        ({f"{LABEL}replica-type": "worker", f"{LABEL}replica-index": "-1"}, None),
        ({}, None),
    ],
)
def test_whose_pod_it_is(labels, replica):
    assert TFJob().replica({"labels": labels}, []) == replica
