"""Workflows with our steps run to their end under Argo's own controller and executor."""

import itertools
import json
import re

import pytest
import yaml
from hera.workflows import DAG, Container, Parameter, Steps, Workflow
from hera.workflows.models import ValueFrom, WorkflowTemplateRef

from tests.argo.environment import BUSYBOX, CLUSTER_TEMPLATES, JOBS, TEMPLATES, WORKFLOWS, job
from tests.support.shell import printing
from tests.support.waiting import until
from tfsteps.argo import lint_messages, workflow_template
from tfsteps.imports.read import read_pipelines
from tfsteps.runs.identity import new_run_id

pytestmark = pytest.mark.cluster

QUICK = "echo up"
CUBE_RUN = "2f6e1c0a9b8d4e3f"


def shell(name, script, outputs=None):
    """Return a template that runs a script in busybox."""
    return Container(
        name=name,
        image=BUSYBOX,
        image_pull_policy="Never",
        command=["sh", "-c", script],
        outputs=[Parameter(name=outputs, value_from=ValueFrom(path="/tmp/out"))] if outputs else None,
    )


def branches(environment):
    """Return a Workflow whose gate decides by the output of another step which of two jobs is run."""
    with environment.workflow("branches") as flow:
        score = shell("score", """echo '{"accuracy": 0.93}' > /tmp/out""", outputs="metrics")
        with DAG(name="main"):
            measured = score(name="score")
            gate = environment.step("evaluate_gate")(
                "gate", metric="accuracy", threshold=0.9, metrics=measured.get_parameter("metrics")
            )
            decision = gate.get_parameter("decision")
            fit = environment.step("train")("fit", **job(QUICK), when=f"{decision} == pass")
            never = environment.step("train")("never", **job(QUICK), when=f"{decision} == fail")
            _ = measured >> gate >> [fit, never]
    return flow


def parted(environment):
    """Return a Workflow that launches a job in one step, and waits for it in the next one."""
    with environment.workflow("parted") as flow, Steps(name="main"):
        begun = environment.step("launch")("go", **job("echo up; sleep 8"))
        environment.step("wait")("end", job=begun.get_parameter("job"))
    return flow


def side_by_side(environment):
    """Return a Workflow that runs two jobs at once in a loop."""
    with environment.workflow("side-by-side") as flow, DAG(name="main"):
        rates = [0.1, 0.01]
        environment.step("train")("fit", **job("echo rate {{item}}; sleep 3"), name="loop", with_items=rates)
    return flow


def by_reference(environment):
    """Submit a Workflow that refers to the WorkflowTemplate, as those do that are written as YAML."""
    parameters = [
        {"name": name, "value": value} for name, value in environment.step("train").values(job(QUICK)).items()
    ]
    reference = {"name": "tfsteps", "template": "train"}
    step = {"name": "fit", "templateRef": reference, "arguments": {"parameters": parameters}}
    templates = [{"name": "main", "steps": [[step]]}]
    item = {
        "apiVersion": WORKFLOWS.api,
        "kind": WORKFLOWS.kind,
        "metadata": {"name": "by-reference"},
        "spec": {"entrypoint": "main", "serviceAccountName": environment.service_account, "templates": templates},
    }
    assert lint_messages(json.dumps(item)) == []
    environment.flows["by-reference"] = environment.create(WORKFLOWS, item)["metadata"]


def imported(environment):
    """Submit what `tfsteps import` makes of a pipeline of cube-studio: a task with an image of its own, and a TFJob."""
    image = {"images": environment.image, "workdir": "/tmp", "command": "echo rate {{RATE}} by {{creator}}"}
    train = {"--image": environment.image, "--working_dir": "/tmp", "--num_worker": "2"}
    exported = {
        "pipeline": {
            "name": "imported",
            "global_env": "RATE=0.1",
            "created_by": "ada",
            "dag_json": {"prepare": {}, "fit": {"upstream": ["prepare"]}},
        },
        "tasks": [
            {"name": "prepare", "job_templete": "自定义镜像", "args": image, "resource_cpu": "0.1", "timeout": 300},
            {
                "name": "fit",
                "job_templete": "tfjob",
                "args": train | {"--command": printing("echo rate {{RATE}}")},
                "resource_cpu": "0.1",
                "resource_memory": "1G",
                "resource_gpu": "0",
            },
        ],
    }
    [pipeline] = read_pipelines(json.dumps(exported))
    assert lint_messages(pipeline.text) == []
    item = yaml.safe_load(pipeline.text)
    item["metadata"] = {"name": "imported"}
    item["spec"]["serviceAccountName"] = environment.service_account
    environment.flows["imported"] = environment.create(WORKFLOWS, item)["metadata"]


def in_cube_studio(environment):
    """Submit a Workflow as cube-studio makes it of a task with our job template."""
    variables = {
        "KFJ_RUN_ID": CUBE_RUN,
        "KFJ_PIPELINE_NAME": "digits",
        "KFJ_TASK_NAME": "tf-train",
        "KFJ_RUNNER": "ada",
        "KFJ_TASK_RESOURCE_CPU": "0.1",
        "KFJ_TASK_RESOURCE_MEMORY": "1G",
        "KFJ_TASK_RESOURCE_GPU": "0",
    }
    arguments = {"--image": environment.image, "--num_worker": "2", "--command": printing("echo trained")}
    container = {
        "image": environment.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "tfsteps.platforms.cube_studio"],
        "args": [*itertools.chain(*arguments.items()), "--system", "kubeflow"],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
    }
    task = {"name": "tf-train", "metadata": {"labels": {"run-id": CUBE_RUN}}, "container": container}
    dag = {"name": "digits", "dag": {"tasks": [{"name": "tf-train", "template": "tf-train"}]}}
    item = {
        "apiVersion": WORKFLOWS.api,
        "kind": WORKFLOWS.kind,
        "metadata": {"name": "in-cube-studio"},
        "spec": {"entrypoint": "digits", "serviceAccountName": environment.service_account, "templates": [dag, task]},
    }
    environment.flows["in-cube-studio"] = environment.create(WORKFLOWS, item)["metadata"]


def of_template(environment, cluster_name):
    """Submit the ClusterWorkflowTemplate as it is: one train step, and a finalizer."""
    flow = Workflow(
        name="of-template",
        workflow_template_ref=WorkflowTemplateRef(name=cluster_name, cluster_scope=True),
        arguments=environment.step("train").values(job(QUICK)),
    )
    environment.submit(flow)


@pytest.fixture(scope="module")
def flows(environment):
    """Submit all Workflows, which run side by side."""
    name = f"tfsteps-{new_run_id()}"
    settings = {"image": environment.image, "service_account_name": environment.service_account}
    environment.create(TEMPLATES, workflow_template(**settings).to_dict())
    environment.cluster.api.create(
        CLUSTER_TEMPLATES, "", workflow_template(cluster=True, name=name, **settings).to_dict()
    )
    for flow in (branches, parted, side_by_side):
        environment.submit(flow(environment))
    until(lambda: environment.status("branches").get("phase"))  # a controller that has seen it has seen the templates
    by_reference(environment)
    imported(environment)
    in_cube_studio(environment)
    of_template(environment, name)
    yield
    environment.cluster.api.request("DELETE", CLUSTER_TEMPLATES.path("", name))


@pytest.mark.usefixtures("flows")
def test_a_gate_decides_a_branch_and_outputs_go_from_step_to_step(environment):
    assert environment.ended("branches") == "Succeeded", environment.why("branches")
    nodes = environment.nodes("branches")
    assert (environment.output("branches", "gate", "decision"), environment.output("branches", "gate", "value")) == (
        "pass",
        "0.93",
    )
    assert nodes["never"]["phase"] == "Skipped"
    output = environment.decoded("branches", "fit", "job")
    (created_job,) = environment.jobs("branches")
    assert (output["name"], output["uid"], output["state"]) == (created_job["name"], created_job["uid"], "succeeded")


@pytest.mark.usefixtures("flows")
def test_a_job_that_one_step_launches_and_another_waits_for(environment):
    assert environment.ended("parted") == "Succeeded", environment.why("parted")
    (created_job,) = environment.jobs("parted")
    begun = environment.decoded("parted", "go", "job")
    ended = environment.decoded("parted", "end", "job")
    assert begun["uid"] == ended["uid"] == created_job["uid"]
    assert ended["state"] == "succeeded"


@pytest.mark.usefixtures("flows")
def test_jobs_side_by_side_in_a_loop(environment):
    assert environment.ended("side-by-side") == "Succeeded", environment.why("side-by-side")
    created_jobs = environment.jobs("side-by-side")
    assert (
        len({item["name"] for item in created_jobs})
        == len({item["labels"]["tfsteps.dev/task"] for item in created_jobs})
        == 2
    )
    assert {item["labels"]["tfsteps.dev/pipeline"] for item in created_jobs} == {"side-by-side"}


@pytest.mark.usefixtures("flows")
def test_a_workflow_that_refers_to_the_template(environment):
    assert environment.ended("by-reference") == "Succeeded", environment.why("by-reference")
    assert len(environment.jobs("by-reference")) == 1


@pytest.mark.usefixtures("flows")
def test_a_pipeline_of_cube_studio(environment):
    assert environment.ended("imported") == "Succeeded", environment.why("imported")
    (created_job,) = environment.jobs("imported")
    assert created_job["labels"]["tfsteps.dev/pipeline"] == "imported"
    log = environment.log("imported")
    assert "rate 0.1 by ada" in log
    # the job ends with worker 0, which on a busy machine may be before the start of worker 1
    assert re.search(r"\[worker-[01]\] rate 0\.1", log), log


@pytest.mark.usefixtures("flows")
def test_the_job_template_of_cube_studio(environment):
    assert environment.ended("in-cube-studio") == "Succeeded", environment.why("in-cube-studio")
    log = environment.log("in-cube-studio")
    assert re.search(r"\[worker-[01]\] trained", log), log
    of_run = {"labelSelector": f"run-id={CUBE_RUN}"}  # by which cube-studio lists, clears and cleans up
    (created_job,) = environment.cluster.api.list(JOBS, environment.namespace, **of_run)["items"]
    assert created_job["metadata"]["labels"]["run-username"] == "ada"
    assert created_job["metadata"]["ownerReferences"][0]["uid"] == environment.flows["in-cube-studio"]["uid"]


@pytest.mark.usefixtures("flows")
def test_the_cluster_template_submitted_as_it_is(environment):
    assert environment.ended("of-template") == "Succeeded", environment.why("of-template")
    assert until(lambda: environment.nodes("of-template")["of-template.onExit"])["phase"] == "Succeeded"
