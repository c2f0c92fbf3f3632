"""Argo Workflows with templates that create a job object."""

import json

import pytest
import yaml

from tests.unit.imports.test_read import refusal
from tfsteps import spec
from tfsteps.imports.read import read_text
from tfsteps.imports.write import job_file
from tfsteps.systems import registry

WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: train-}
spec:
  entrypoint: main
  arguments: {parameters: [{name: workers, value: 2}, {name: image, value: "acme/mnist:1"}]}
  templates:
  - name: main
    steps: [[{name: t, template: train}]]
  - name: train
    inputs: {parameters: [{name: image, value: "{{workflow.parameters.image}}"}]}
    retryStrategy: {limit: 2}
    resource:
      action: create
      setOwnerReference: true
      successCondition: SUCCESS
      failureCondition: status.replicaStatuses.Worker.failed > 0
      manifest: |
        apiVersion: kubeflow.org/v1
        kind: TFJob
        metadata: {generateName: "train-{{workflow.uid}}-"}
        spec:
          tfReplicaSpecs:
            Worker:
              replicas: {{workflow.parameters.workers}}
              template:
                spec: {containers: [{name: tensorflow, image: "{{inputs.parameters.image}}", command: [python, t.py]}]}
"""


def test_parameters_that_are_no_list_are_left_out():
    text = WORKFLOW.replace("template: train}", "template: train, arguments: {parameters: 5}}")
    assert imported("status.completionTime", text).job["image"] == "acme/mnist:1"


def imported(success, text=WORKFLOW):
    [job], _ = read_text(text.replace("SUCCESS", success), "mnist")
    spec.parse(job_file(job), "job", registry.options())
    return job


@pytest.mark.parametrize(
    ("condition", "success", "decided"),
    [
        ("status.replicaStatuses.Worker.succeeded = {{workflow.parameters.workers}}", "all_workers", False),
        ("status.replicaStatuses.Worker.succeeded > 1", "all_workers", False),
        ("status.replicaStatuses.Worker.succeeded > 0", "chief", True),
        ("status.completionTime", "chief", True),
        ("status.state == Succeeded", None, False),
    ],
)
def test_the_success_that_a_step_waits_for(condition, success, decided):
    job = imported(condition)
    assert job.job["roles"] == {"worker": {"replicas": 2}}
    assert job.job["image"] == "acme/mnist:1"
    assert job.job.get("success") == success
    assert (("success",) in job.comments) is decided


def test_what_belongs_to_the_step():
    notes = imported("status.state == Succeeded").notes
    assert "spec.templates[1].retryStrategy.limit of the template is not part of a job: write it on the step" in notes
    assert any(note.startswith("failureCondition status.replicaStatuses.Worker.failed > 0: ") for note in notes)


def test_a_schedule_and_a_template():
    inner = yaml.safe_load(WORKFLOW)
    schedule = {**inner, "kind": "CronWorkflow", "spec": {"schedule": "@daily", "workflowSpec": inner["spec"]}}
    for document in ({**inner, "kind": "WorkflowTemplate"}, schedule):
        assert imported("status.state == Succeeded", yaml.safe_dump(document)).job["image"] == "acme/mnist:1"


def test_a_parameter_without_a_value():
    message = refusal(WORKFLOW.replace("name: workers, value: 2", "name: workers"))
    assert "template train: {{workflow.parameters.workers}} has no value in this file" in message


def test_a_workflow_without_a_job():
    assert "has no job that can be imported" in refusal(WORKFLOW.replace("action: create", "action: delete"))


def launcher(**arguments):
    """Return a compiled pipeline of Kubeflow Pipelines 1 whose one step is the TFJob launcher."""
    pod = {"spec": {"containers": [{"name": "tensorflow", "image": "acme/mnist:1", "command": ["python", "t.py"]}]}}
    worker = {"replicas": 2, "restartPolicy": "OnFailure", "template": pod}
    values = {"name": "{{inputs.parameters.name}}", "workerSpec": json.dumps(worker), "psSpec": "{}", **arguments}
    args = [word for name, value in values.items() for word in (f"--{name}", value)]
    template = {
        "name": "launch",
        "inputs": {"parameters": [{"name": "name"}]},
        "container": {"image": "launcher:1", "command": ["python", "/ml/launch_tfjob.py"], "args": args},
    }
    call = {
        "name": "l",
        "template": "launch",
        "arguments": {"parameters": [{"name": "name", "value": "{{inputs.parameters.name}}"}]},
    }
    main = {"name": "main", "dag": {"tasks": [call]}}
    parameters = {"parameters": [{"name": "name", "value": "digits"}]}
    body = {"entrypoint": "main", "arguments": parameters, "templates": [main, template]}
    return yaml.safe_dump({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {}, "spec": body})


def test_the_tfjob_launcher_of_pipelines_1():
    [job], _ = read_text(launcher(backoffLimit="3", activeDeadlineSeconds="-1", tfjobTimeoutMinutes="60"))
    assert job.job["name"] == "digits"
    assert (job.job["image"], job.job["roles"]) == ("acme/mnist:1", {"worker": {"replicas": 2}})
    assert (job.job["restart"], job.job["backoff_limit"]) == ("on_failure", 2)
    assert (job.job["deadlines"], job.job["on_end"]) == ({"total": "1h"}, "delete")
    assert any("the launcher succeeded also if the TFJob failed" in note for note in job.notes)
    spec.parse(job_file(job), "job", registry.options())
    [job], _ = read_text(launcher(namespace="team", jobLabel="mine"))
    assert "--jobLabel mine of the launcher: a job file has no field for it" in job.notes
    assert any(note.startswith("metadata.namespace = 'team'") for note in job.notes)
    [job], _ = read_text(launcher(deleteAfterDone="False", cleanPodPolicy="None"))
    assert job.job["on_end"] == "keep"


def test_a_launcher_whose_arguments_are_not_known():
    assert "{{inputs.parameters.spec}} has no value" in refusal(launcher(workerSpec="{{inputs.parameters.spec}}"))
    assert "is not a whole number" in refusal(launcher(backoffLimit="many"))
    assert "is not JSON" in refusal(launcher(workerSpec="{"))


@pytest.mark.parametrize(
    "condition",
    [
        'status.conditions.#(type=="Running").status == "True"',
        "status.phase in (Running, Succeeded)",
        "status.state == Succeeded, status.extra == 1",
        "status.replicaStatuses.Worker.succeeded = 2, status.extra == 1",
        f"status.replicaStatuses.Worker.succeeded = {'9' * 5000}",
    ],
)
def test_a_condition_that_is_not_the_end_of_the_job_is_a_comment(condition):
    job = imported(condition)
    assert job.job["success"] == "chief"
    assert condition in job.comments["success",]


def test_a_condition_about_failures_beside_the_success_changes_nothing():
    job = imported("status.replicaStatuses.Worker.succeeded == 2, status.replicaStatuses.PS.failed == 0")
    assert job.job["success"] == "all_workers"


STEPS = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: two}
spec:
  entrypoint: main
  arguments: {parameters: [{name: rate, value: "0.1"}]}
  templates:
  - name: main
    inputs: {parameters: [{name: rate}]}
    dag: {tasks: [CALLS]}
  - name: train
    inputs: {parameters: [{name: steps, default: "10"}, {name: rate}]}
    resource:
      action: create
      manifest: |
        apiVersion: kubeflow.org/v1
        kind: TFJob
        metadata: {name: train}
        spec: {tfReplicaSpecs: {Worker: {template: {spec: {containers: [
          {name: tensorflow, image: a, command: ["{{inputs.parameters.steps}}", "{{inputs.parameters.rate}}"]}]}}}}}
  - {name: other, container: {image: a}}
"""


def call(rate="{{inputs.parameters.rate}}", steps=None):
    values = [("rate", rate), *([("steps", steps)] if steps else [])]
    parameters = ", ".join(f"{{name: {name}, value: '{value}'}}" for name, value in values)
    return f"{{name: a, template: train, arguments: {{parameters: [{parameters}]}}}}"


@pytest.mark.parametrize(
    ("calls", "command", "note"),
    [
        ([call()], ["10", "0.1"], None),
        ([call(steps="100")], ["100", "0.1"], None),
        ([call(steps="100"), call(steps="200")], ["10", "0.1"], "steps to '100', '200': here it is '10'"),
        ([call(steps="100"), call()], ["10", "0.1"], "steps to '100', '10': here it is '10'"),
        ([call(steps="{{item}}")], ["10", "0.1"], "steps to '{{item}}': here it is '10'"),
        ([call(rate="1"), call(rate="2")], ["10", "1"], "rate to '1', '2': here it is '1'"),
    ],
)
def test_what_the_steps_pass_to_a_template(calls, command, note):
    [job], [left] = read_text(STEPS.replace("CALLS", ", ".join(calls)))
    assert job.job["command"] == command
    notes = [line.removeprefix("the steps set parameter ") for line in job.notes if line.startswith("the steps set")]
    assert notes == ([note] if note else [])
    assert left.startswith(
        "Workflow two (argoproj.io/v1alpha1): only its jobs become job files. Left out: main, other,"
    )


def test_a_parameter_that_no_step_knows_before():
    wrong = refusal(STEPS.replace("CALLS", call(rate="{{item}}")))
    assert "{{inputs.parameters.rate}} has no value in this file" in wrong
