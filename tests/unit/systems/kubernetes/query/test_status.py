"""The status of a job that nobody here followed, from its objects alone."""

import pathlib

import pytest

from tests.unit.cli.jobs_on_cluster import START, pod_of, tfjob
from tfsteps import spec
from tfsteps.runs.identity import PREFIX, Identity
from tfsteps.systems import registry
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.cleanup.retention import KEPT_FOR_TRY, KEPT_UNTIL
from tfsteps.systems.kubernetes.follow.job_object import REPLICAS
from tfsteps.systems.kubernetes.ownership import OwnerIndex
from tfsteps.systems.kubernetes.query.status import job_pods, status

NAMES = ("chief-0", "worker-0", "worker-1")
RUNNING = tfjob("r", ("Created", "True", 0), ("Running", "True", 3))
CREATED = tfjob("r", ("Created", "True", 0))
ENDED = tfjob("r", ("Running", "False", 3), ("Succeeded", "True", 30))


def of(job, *pods, now=60):
    return status(
        TFJob(),
        job,
        job_pods(TFJob(), job, pods, OwnerIndex(None, "ns").owners(TFJob(), job, [])),
        START.timestamp() + now,
    )


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
        (ENDED, [], "succeeded", ["unknown"] * 3),
        (tfjob("r", ("Suspended", "True", 1)), [], "suspended", ["pending"] * 3),
    ],
)
def test_states_are_those_that_a_launcher_would_show(job, pods, state, replicas):
    seen = of(job, *(pod_of(job, *pod, ended=20 if pod[2:] else None) for pod in pods))
    assert (seen.state, [replica.state.value for replica in seen.replicas]) == (state, replicas)


@pytest.mark.parametrize(
    ("noted", "replicas"),
    [
        (
            '{"succeeded":{"chief":[[0,0]],"worker":[[1,1]]},"stopped":{"worker":[[0,0]]}}',
            "succeeded stopped succeeded",
        ),
        ('{"succeeded":{"worker":[[0,999999999999]]}}', "unknown succeeded succeeded"),
        ('{"done":{}}', "unknown unknown unknown"),
        ("", "unknown unknown unknown"),
    ],
)
def test_the_states_of_replicas_without_pods_are_those_that_the_launcher_noted(noted, replicas):
    item = {**ENDED, "metadata": {**ENDED["metadata"], "annotations": {REPLICAS: noted}}}
    assert " ".join(replica.state for replica in of(item).replicas) == replicas


def test_times_are_those_of_the_cluster():
    start = START.timestamp()
    running = of(RUNNING, *(pod_of(RUNNING, name, "Running", started=2 + i) for i, name in enumerate(NAMES)))
    assert (running.created, running.started, running.ended) == (start, start + 4, None)
    ended = of(ENDED, pod_of(ENDED, "chief-0", "Succeeded", 0, started=2, ended=29))
    assert (ended.started, ended.ended) == (None, start + 30), "two pods are gone, and with them when they started"
    (incarnation,) = ended.replicas[0].incarnations
    assert (incarnation.started, incarnation.ended, incarnation.exit_code) == (start + 2, start + 29, 0)


def test_pods_made_again_and_containers_started_again_are_restarts():
    pods = [
        pod_of(RUNNING, "worker-1", "Failed", 137, ended=9),
        pod_of(RUNNING, "worker-1", "Running", started=12, restarts=2, number=1),
    ]
    worker = of(RUNNING, *reversed(pods)).replicas[2]
    assert (worker.restarts, worker.state) == (3, "running")
    assert [(incarnation.state.value, incarnation.exit_code) for incarnation in worker.incarnations] == [
        ("failed", 137),
        ("running", None),
    ]


def test_a_run_keeps_its_name_where_a_label_cannot_hold_it():
    job = tfjob("a run of $(many) words", task="über")
    assert job["metadata"]["labels"][f"{PREFIX}run-id"] != "a run of $(many) words"
    assert of(job).identity == Identity(run="a run of $(many) words", task="über", attempt=0)


def test_a_task_may_have_a_name_that_its_replicas_do_not_know():
    job = tfjob("r9")
    assert status(TFJob(), job, [], START.timestamp(), "train").identity.task == "train"


def test_a_job_that_somebody_wrote_by_hand_is_known_by_its_labels():
    job = tfjob("r9", attempt=2)
    for role in job["spec"]["tfReplicaSpecs"].values():
        del role["template"]["spec"]["containers"][0]["env"]
    seen = of(job)
    assert (seen.identity, seen.output) == (Identity(run="r9", task="mnist", attempt=2), "")
    job["metadata"]["labels"][f"{PREFIX}attempt"] = "x"
    assert of(job).identity.attempt == 0


@pytest.mark.parametrize(("volumes", "kept"), [([], False), ([{"pvc": "data", "mount": "/data"}], True)])
def test_a_folder_that_was_lost_with_the_pods_is_no_output(volumes, kept):
    training_job = spec.from_plain({"name": "a", "image": "i", "roles": {"worker": {}}, "volumes": volumes}, "test", {})
    identity = Identity(run="r9", task="train")
    paths = registry.get("kubeflow").output_paths(training_job, identity, pathlib.Path())
    item = TFJob().render(training_job, identity, paths, "ml").manifest
    item["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    seen = of({**item, "status": ENDED["status"]})
    folders = ("/data/tfsteps/r9/train", "/data/tfsteps/r9/train/model", "/data/tfsteps/r9/train/logs")
    assert (seen.output, seen.model, seen.logs) == (folders if kept else ("", "", ""))


@pytest.mark.parametrize(
    ("noted", "what"), [({}, "a retry of the run"), ({KEPT_FOR_TRY: "{}"}, "another try of the step")]
)
def test_the_status_of_a_kept_job_shows_until_when_it_is_kept_and_for_what(noted, what):
    item = tfjob("r", ("Running", "True", 3))
    item["metadata"]["annotations"] = {
        **item["metadata"].get("annotations", {}),
        KEPT_UNTIL: "2026-11-24T03:30:00+00:00",
        **noted,
    }
    pods = [pod_of(item, name, "Running") for name in NAMES]
    assert f"kept until 2026-11-24T03:30:00+00:00 for {what}." in of(item, *pods).message
