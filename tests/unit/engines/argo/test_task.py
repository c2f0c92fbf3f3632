"""A node of a Workflow, from its command line and environment to the files that Argo reads."""

import json
import subprocess
import sys

import pytest

from tfsteps.engines.argo.task import ArgoTask
from tfsteps.engines.registry import step_task
from tfsteps.spec import SpecError

ENVIRONMENT = {
    "TFSTEPS_RUN_ID": "8d1f",
    "TFSTEPS_WORKFLOW": "nightly-x7k2p",
    "TFSTEPS_NODE_NAME": "nightly-x7k2p.fan-out(0:0.1).train(2)",
    "TFSTEPS_ARTIFACTS": "logs report",
}


def node(folder, *arguments, **environment):
    return ArgoTask.from_arguments(["--argo", "train", *arguments], {**ENVIRONMENT, **environment}, folder)


def test_inputs_have_their_types(tmp_path):
    arguments = ["workers=2", "cpu=500m", 'args=["--lr=0.1"]', 'env={"A": "b=c"}', "image=a:1", "name=", "gpu="]
    assert node(tmp_path, *arguments).parameters == {
        "workers": 2,
        "cpu": "500m",
        "args": ["--lr=0.1"],
        "env": {"A": "b=c"},
        "image": "a:1",
        "cluster": "",
        "code": "",
        "data": "",
        "memory": "",
        "name": "",
        "restart": "",
        "run_id": "",
        "system": "auto",
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("workers=two", "workers: 'two' is not of its type. Allowed: a whole number."),
        ("workers=1.5", "workers: '1.5' is not of its type."),
        ("workers=true", "workers: 'true' is not of its type."),
        ("args=--lr", "args: '--lr' is not of its type. Allowed: a list, as JSON."),
        ('args={"a": 1}', "args: '{\"a\": 1}' is not of its type."),
        ("env=[]", "env: '[]' is not of its type. Allowed: a mapping, as JSON."),
        ("worker=2", "worker: is not an input. Allowed: args, "),
    ],
)
def test_bad_input(arguments, says, tmp_path):
    with pytest.raises(SpecError) as caught:
        node(tmp_path, arguments, "image=a:1").parameters  # noqa: B018
    assert says in str(caught.value)


def test_all_bad_inputs_at_once(tmp_path):
    with pytest.raises(SpecError) as caught:
        node(tmp_path, "workers=x", "chief=y", "z=").parameters  # noqa: B018
    assert [problem.path for problem in caught.value.problems] == [("chief",), ("workers",)]


@pytest.mark.parametrize("arguments", [[], ["train"], ["--argo"], ["--argo", "trian"], ["workers=2"]])
def test_not_a_command_line_of_argo(arguments):
    with pytest.raises(ValueError, match="expected"):
        step_task(arguments)


def test_a_launcher_finds_its_engine():
    assert isinstance(step_task(["--argo", "train"]), ArgoTask)


def test_identity(tmp_path):
    who = node(tmp_path).identity()
    assert (who.run, who.task, who.attempt, who.pipeline) == (
        "8d1f",
        "nightly-x7k2p.fan-out(0:0.1).train",
        0,
        "nightly",
    )


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("a.train", "a.train"),
        ("a.train(3)", "a.train"),
        ("a[0].train(12)", "a[0].train"),
        ("a.train(0:x)", "a.train(0:x)"),
        ("a.train(0:x)(0)", "a.train(0:x)"),
        ("", "train"),
    ],
)
def test_the_task_is_the_same_over_retries(name, task, tmp_path):
    assert node(tmp_path, TFSTEPS_NODE_NAME=name).identity().task == task


@pytest.mark.parametrize(
    ("workflow", "pipeline"),
    [("mnist-x7k2p", "mnist"), ("mnist-1763740800", "mnist"), ("mnist-train", "mnist-train"), ("mnist", "mnist")],
)
def test_the_pipeline_is_the_workflow_without_what_argo_appends(workflow, pipeline, tmp_path):
    assert node(tmp_path, TFSTEPS_WORKFLOW=workflow).identity().pipeline == pipeline


def test_a_run_id_that_is_given_counts(tmp_path):
    assert node(tmp_path, "run_id=mine").identity().run == "mine"


def test_outputs(tmp_path):
    metadata = {"model": {"path": "/data/export"}, "metrics": {"loss": 0.5}, "logs": {"path": "/data/logs"}}
    parameters = {
        "job": {"name": "mnist-1"},
        "tensorboard_url": "",
        "failure": 'it\'s "lost"',
        "value": 0.25,
        "n": None,
    }
    node(tmp_path).write(parameters, metadata)
    written = {file.name: file.read_text() for file in (tmp_path / "outputs").iterdir()}
    assert json.loads(written.pop("job")) == {"name": "mnist-1"}
    assert json.loads(written.pop("metrics")) == {"loss": 0.5}
    assert written == {
        "tensorboard_url": "",
        "failure": 'it\'s "lost"',
        "value": "0.25",
        "n": "",
        "model": "/data/export",
    }


def test_artifacts_are_written_where_the_template_has_them(tmp_path):
    assert node(tmp_path).output("logs").path == tmp_path / "artifacts/logs"
    assert node(tmp_path).output("model") is None
    assert node(tmp_path, TFSTEPS_ARTIFACTS="").output("logs") is None


def test_an_input_artifact(tmp_path):
    assert node(tmp_path).artifact("metrics") is None
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs/metrics").write_text('{"loss": 0.5}')
    assert node(tmp_path).artifact("metrics").metadata == {"loss": 0.5}
    (tmp_path / "inputs/metrics").write_text("[1]")
    assert node(tmp_path).artifact("metrics").metadata == {}


def test_a_pod_needs_neither_hera_nor_yaml():
    program = "import sys\nfrom tfsteps.engines.registry import step_task\n"
    program += "step_task(['--argo', 'train', 'workers=2']).parameters\n"
    program += "print(sorted({'hera', 'kfp', 'yaml', 'pydantic', 'json', 'difflib'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_run_id_that_leads_to_another_folder_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"run_id: '\.\./x' leads to another folder"):
        node(tmp_path, TFSTEPS_RUN_ID="../x").identity()
    with pytest.raises(SpecError, match=r"run_id: '/etc' leads to another folder"):
        node(tmp_path, "run_id=/etc").identity()
