"""The compiled pipelines are up to date, free of traps, and made of the same jobs for both engines."""

import pathlib
import subprocess
import sys
import time

import msgspec
import pytest
import yaml

from tfsteps import __version__, schedule, spec
from tfsteps.engines.argo import cronjob, cronworkflow
from tfsteps.engines.argo.lint import lint_messages as argo_problems
from tfsteps.engines.kfp import recurring_run
from tfsteps.engines.kfp.lint import lint_messages as kfp_problems
from tfsteps.systems import registry

PIPELINES = pathlib.Path(__file__).parents[2] / "pipelines"
COMPILED = PIPELINES / "compiled"
NAMES = ["fan_out", "finalizer", "mnist", "nightly", "notifications", "parameter_server", "side_by_side"]
JOBS = sorted((PIPELINES / "jobs").iterdir())


def compiled(program, tmp_path):
    target = tmp_path / "compiled.yaml"
    subprocess.run([sys.executable, PIPELINES / program, "--compile", target], check=True)
    return target.read_text()


def test_each_pipeline_is_there_for_both_engines():
    assert sorted(file.name for file in COMPILED.iterdir()) == sorted(
        f"{name}{end}" for name in NAMES for end in (".yaml", ".argo.yaml")
    )
    assert [file.stem for file in JOBS] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_for_kubeflow(name, golden, tmp_path):
    text = compiled(f"{name}.py", tmp_path)
    assert kfp_problems(text) == []
    golden(COMPILED / f"{name}.yaml", text)


@pytest.mark.parametrize("name", NAMES)
def test_for_argo(name, golden, tmp_path):
    text = compiled(f"{name}_argo.py", tmp_path)
    assert argo_problems(text) == []
    golden(COMPILED / f"{name}.argo.yaml", text)


@pytest.mark.parametrize("name", NAMES)
def test_both_engines_get_the_same_job_and_the_same_inputs(name):
    plain = yaml.safe_load((PIPELINES / "jobs" / f"{name}.yaml").read_text())
    pipeline = next(yaml.safe_load_all((COMPILED / f"{name}.yaml").read_text()))
    workflow = yaml.safe_load((COMPILED / f"{name}.argo.yaml").read_text())
    for job in (*kfp_jobs(pipeline), *argo_jobs(workflow)):
        job.pop("volumes", None)  # of the claim, which Kubeflow mounts by the task
        assert spec.from_plain(job, name) == spec.from_plain(plain, name)
    inputs = pipeline["root"].get("inputDefinitions", {}).get("parameters", {})
    arguments = {parameter["name"]: parameter["value"] for parameter in workflow["spec"]["arguments"]["parameters"]}
    assert {name: text(declared["defaultValue"]) for name, declared in inputs.items()} == {
        name: text(yaml.safe_load(value)) for name, value in arguments.items()
    }


def kfp_jobs(pipeline):
    """Return each input `spec` that is written into a pipeline."""
    dags = [pipeline["root"], *pipeline["components"].values()]
    tasks = [task for dag in dags for task in dag.get("dag", {}).get("tasks", {}).values()]
    specs = [task.get("inputs", {}).get("parameters", {}).get("spec", {}) for task in tasks]
    constants = [item["runtimeValue"]["constant"] for item in specs if "runtimeValue" in item]
    assert constants
    return [whole(item) for item in constants]


def argo_jobs(workflow):
    calls = [task for template in workflow["spec"]["templates"] for task in template.get("dag", {}).get("tasks", [])]
    specs = [
        msgspec.json.decode(argument["value"])
        for call in calls
        for argument in call.get("arguments", {}).get("parameters", [])
        if argument["name"] == "spec"
    ]
    assert specs
    return specs


def whole(value):
    """Undo what a protocol buffer makes of integers."""
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def text(value):
    return msgspec.json.encode(whole(value), order="sorted").decode()


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.name)
def test_a_job_names_the_image_of_this_version(file):
    job = spec.load(file)
    assert job.image == f"tfsteps/digits:{__version__}"
    assert registry.get("kubeflow").spec_problems(job) == []


def test_the_schedule_suits_every_scheduler():
    when = schedule.load(PIPELINES / "nightly.schedule.yaml")
    assert cronworkflow.schedule_problems(when) == []
    assert cronjob.schedule_problems(when) == []
    assert recurring_run.schedule_problems(when, time.time()) == []
