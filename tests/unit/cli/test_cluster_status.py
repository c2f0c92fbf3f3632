"""The status of a job that nobody here followed, from its objects alone."""

import pytest

from tests.unit.cli.jobs_on_cluster import START, pod_of, tfjob
from tfsteps.identity import PREFIX, Identity
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.status import job_pods, status

NAMES = ("chief-0", "worker-0", "worker-1")
RUNNING = tfjob("r", ("Created", "True", 0), ("Running", "True", 3))
CREATED = tfjob("r", ("Created", "True", 0))
ENDED = tfjob("r", ("Running", "False", 3), ("Succeeded", "True", 30))


def of(job, *pods, now=60):
    return status(TFJob(), job, job_pods(TFJob(), job, pods), START.timestamp() + now)


@pytest.mark.parametrize(
    ("job", "pods", "state", "replicas"),
    [
        (CREATED, [], "pending", ["pending"] * 3),
        (CREATED, [("chief-0", "Running"), ("worker-0", "Pending")], "pending", ["running", "pending", "pending"]),
        (RUNNING, [(name, "Running") for name in NAMES], "running", ["running"] * 3),
        (
            RUNNING,
            [("chief-0", "Running"), ("worker-0", "Running"), ("worker-1", "Failed", 1)],
            "running",
            ["running", "running", "failed"],
        ),
        (RUNNING, [("chief-0", "Running")], "pending", ["running", "pending", "pending"]),
        (ENDED, [("chief-0", "Succeeded", 0)], "succeeded", ["succeeded", "stopped", "stopped"]),
        (ENDED, [], "succeeded", ["stopped"] * 3),
        (tfjob("r", ("Suspended", "True", 1)), [], "suspended", ["pending"] * 3),
    ],
)
def test_states_are_those_that_a_launcher_would_show(job, pods, state, replicas):
    seen = of(job, *(pod_of(job, *each, ended=20 if each[2:] else None) for each in pods))
    assert (seen.state, [replica.state.value for replica in seen.replicas]) == (state, replicas)


def test_times_are_those_of_the_cluster():
    start = START.timestamp()
    running = of(RUNNING, *(pod_of(RUNNING, name, "Running", started=2 + i) for i, name in enumerate(NAMES)))
    assert (running.created, running.started, running.ended) == (start, start + 4, None)
    ended = of(ENDED, pod_of(ENDED, "chief-0", "Succeeded", 0, started=2, ended=29))
    assert (ended.started, ended.ended) == (None, start + 30), "two pods are gone, and with them when they started"
    (span,) = ended.replicas[0].spans
    assert (span.started, span.ended, span.exit_code) == (start + 2, start + 29, 0)


def test_pods_made_again_and_containers_started_again_are_restarts():
    pods = [
        pod_of(RUNNING, "worker-1", "Failed", 137, ended=9),
        pod_of(RUNNING, "worker-1", "Running", started=12, restarts=2, number=1),
    ]
    worker = of(RUNNING, *reversed(pods)).replicas[2]
    assert (worker.restarts, worker.state) == (3, "running")
    assert [(span.state.value, span.exit_code) for span in worker.spans] == [("failed", 137), ("running", None)]


def test_a_run_keeps_its_name_where_a_label_cannot_hold_it():
    job = tfjob("a run of $(many) words", task="über")
    assert job["metadata"]["labels"][f"{PREFIX}run-id"] != "a run of $(many) words"
    assert of(job).identity == Identity(run="a run of $(many) words", task="über", attempt=0)


def test_a_job_that_somebody_wrote_by_hand_is_known_by_its_labels():
    job = tfjob("r9", attempt=2)
    for role in job["spec"]["tfReplicaSpecs"].values():
        del role["template"]["spec"]["containers"][0]["env"]
    seen = of(job)
    assert (seen.identity, seen.output) == (Identity(run="r9", task="mnist", attempt=2), "")
    job["metadata"]["labels"][f"{PREFIX}attempt"] = "x"
    assert of(job).identity.attempt == 0
