"""What commands show of a task on HAI beside its ranks."""

import json
import shlex

import pytest

from tests.unit.cli.statuses import saved, status
from tfsteps.platforms.hai import schema
from tfsteps.platforms.hai.backend import HaiBackend
from tfsteps.platforms.hai.runs import HaiRun, TaskPlan
from tfsteps.runs.events import ReplicaName, State


def task_of(*tags):
    return HaiRun(
        {"chain_id": "c", "tags": list(tags)}, TaskPlan([ReplicaName("worker", 0)], {}), status(uid="c", system="hai")
    )


def test_the_workflow_of_a_task_is_on_a_cluster_that_hai_does_not_name(monkeypatch):
    monkeypatch.setenv("TFSTEPS_PIPELINE_URL", "https://argo.example/{namespace}/{workflow}")
    _, tag = schema.workflow_tags("c", "ml", "nightly-x7k2p", "u")
    around = HaiBackend(None).surroundings("r1", [task_of(tag), task_of(tag)])
    (pipeline,) = around.pipelines
    assert (pipeline.name, pipeline.detail) == (
        "nightly-x7k2p",
        "in namespace ml of the cluster that launched the task",
    )
    assert pipeline.links == {"pipeline": "https://argo.example/ml/nightly-x7k2p"}
    assert around.launchers == {}


def test_the_launcher_of_a_task_is_the_one_that_this_machine_records():
    saved(uid="c", system="hai", launcher=4711, state=State.RUNNING)
    job = task_of()
    around = HaiBackend(None).surroundings("r1", [job])
    (launcher,) = around.launchers.values()
    assert (launcher.name, launcher.state) == ("pid 4711", "gone")
    assert around.pipelines == []


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        ("running", ("running", "PodsRunning")),
        ("succeeded_terminating", ("running", "")),
        ("building", ("pending", "")),
    ],
)
def test_a_list_reads_no_logs_and_says_that_only_the_pods_are_known_to_run(worker, expected):
    plan = shlex.quote(json.dumps({"roles": {"worker": {"replicas": 1}}, "env": {}}))
    schema_of_task = {"spec": {"environments": {schema.PLAN: plan}}}
    task = {"chain_id": "c", "nb_name": "quick", "config_json": {"schema": schema_of_task}}
    listed = HaiRun.of({**task, "chain_status": "running", "worker_status": worker}).status
    assert (listed.state, listed.reason) == expected
    assert ("`tfsteps show RUN` reads from the logs" in listed.message) == (worker == "running")
