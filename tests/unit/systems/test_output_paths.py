"""Where a job's outputs go: on a cluster when it does not say so itself, and as URIs on every job system."""

import json
import pathlib

import pytest

from tfsteps import spec
from tfsteps.launcher.lifecycle import first_status
from tfsteps.runs.identity import Identity
from tfsteps.steps.job_step import JobOutput
from tfsteps.systems import registry

CLAIM = {"pvc": "data", "mount": "/data"}
EXPORT = {"nfs": {"server": "filer", "path": "/exports"}, "mount": "/nfs"}
SCRATCH = {"empty_dir": "1Gi", "mount": "/scratch"}
NOWHERE = "/tmp/tfsteps"


def job(volumes=(), **fields):
    plain = {"name": "mnist", "image": "a:1", "command": ["true"], "roles": {"worker": {}}, "volumes": list(volumes)}
    return spec.from_plain({**plain, **fields}, "test")


def output(training_job, task="train"):
    here = pathlib.Path()
    return registry.get("kubeflow").output_paths(training_job, Identity(run="r1", task=task), here).output


@pytest.mark.parametrize(
    ("volumes", "folder"),
    [
        ([], NOWHERE),
        ([SCRATCH], NOWHERE),
        ([{**CLAIM, "read_only": True}], NOWHERE),
        ([CLAIM], "/data/tfsteps"),
        ([EXPORT], "/nfs/tfsteps"),
        ([SCRATCH, {**CLAIM, "mount": "/ro", "read_only": True}, EXPORT, CLAIM], "/nfs/tfsteps"),
        ([{**CLAIM, "mount": "/data/{x}"}], "/data/{x}/tfsteps"),
    ],
)
def test_the_first_volume_that_lasts_holds_the_outputs(volumes, folder):
    training_job = job(volumes)
    assert output(training_job) == f"{folder}/r1/train"
    lost = [warning for warning in registry.get("kubeflow").warnings(training_job) if "lost with their pods" in warning]
    assert bool(lost) == (folder == NOWHERE)


@pytest.mark.parametrize("system", [*registry.on_kubernetes(), "hai"])
@pytest.mark.parametrize("volumes", [[], [SCRATCH]])
def test_a_folder_that_is_lost_with_its_pod_is_not_handed_on(system, volumes):
    training_job, identity = job([] if system == "hai" else volumes), Identity(run="r1", task="train")
    on = registry.get(system)
    lost = first_status(training_job, identity, on, on.output_paths(training_job, identity, pathlib.Path()), "")
    assert (lost.output, lost.model, lost.logs) == ("", "", "")
    assert JobOutput.of(lost).model == ""
    training_job = job(output_dir="/data/x")
    kept = first_status(training_job, identity, on, on.output_paths(training_job, identity, pathlib.Path()), "")
    assert (kept.output, kept.model, kept.logs) == ("/data/x", "/data/x/model", "/data/x/logs")


def test_the_output_dir_of_the_job_file_counts():
    training_job = job([CLAIM], output_dir="/other/{name}/{run_id}/{task}")
    assert output(training_job) == "/other/mnist/r1/train"
    assert registry.get("kubeflow").warnings(training_job) == []


@pytest.mark.parametrize("task", ["mnist-x2k4[0].train", "fan-out-x2k4.train(0:LEARNING_RATE:0.1)", "a*b?{c}"])
def test_tensorflow_finds_its_checkpoints_whatever_a_task_is_called(task):
    folder = output(job([CLAIM]), task)
    assert not set(folder) & set("[]*?{}():"), folder
    assert folder != output(job([CLAIM]), f"{task}-"), "two tasks never share a folder"


def test_a_task_with_a_plain_name_is_found_by_it():
    assert output(job([CLAIM]), "6b6f4c1e-8a55-4b7e-9d10-0c4a55ba5c65").endswith(
        "/6b6f4c1e-8a55-4b7e-9d10-0c4a55ba5c65"
    )


@pytest.mark.parametrize("system", registry.plugins())
@pytest.mark.parametrize("scheme", ["gs", "s3", "hdfs"])
@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_a_uri_stays_a_uri(system, scheme, slashes, tmp_path):
    board = {"tensorboard": {"log_dir": "./tb/"}} if system in ("local", "tfjob-v1alpha1") else {}
    training_job = job(
        output_dir=f"{scheme}://bucket/{{run_id}}{slashes}", outputs={"model": "./export/", "logs": "."}, **board
    )
    identity, on = Identity(run="r1", task="train"), registry.get(system)
    assert not on.spec_problems(training_job)
    paths = on.output_paths(training_job, identity, tmp_path)
    root = f"{scheme}://bucket/r1"
    assert (paths.output, paths.model, paths.logs) == (root, f"{root}/export", root)
    assert paths.tensorboard(training_job) == (f"{root}/tb" if board else root)
    plan = json.dumps(on.plan(training_job, identity, paths))
    assert f"{root}/export" in plan
    assert f'"{scheme}:/bucket' not in plan


@pytest.mark.parametrize(
    ("volumes", "refused"),
    [
        ([{**CLAIM, "read_only": True}], True),
        ([CLAIM], False),
        ([{**CLAIM, "read_only": True}, {**SCRATCH, "mount": "/data/runs/"}], False),
        ([CLAIM, {**SCRATCH, "mount": "/data/runs", "read_only": True}], True),
        ([{**CLAIM, "mount": "/dat", "read_only": True}], False),
    ],
    ids=["read-only", "writable", "writable within it", "read-only within it", "another folder"],
)
def test_output_on_a_volume_that_is_mounted_read_only_is_refused(volumes, refused):
    problems = registry.get("kubeflow").spec_problems(job(volumes, output_dir="/data/runs/{run_id}"))
    assert [str(item).partition(",")[0] for item in problems] == (
        [f"output_dir: '/data/runs/{{run_id}}' is on the volume at {volumes[-1]['mount']}"] if refused else []
    )


@pytest.mark.parametrize("system", registry.on_kubernetes())
def test_a_pod_has_no_folder_for_a_relative_path(system):
    (problem,) = registry.get(system).spec_problems(job(output_dir="runs/{run_id}"))
    assert str(problem).startswith("output_dir: 'runs/{run_id}' is relative, and a pod has no folder of the job file.")


@pytest.mark.parametrize("folder", ["out/", "./out", "out//", "{base_dir}/out/"])
def test_a_path_of_this_machine_is_made_whole(folder, tmp_path):
    training_job = job(output_dir=folder.format(base_dir=tmp_path))
    paths = registry.get("local").output_paths(training_job, Identity(run="r1", task="train"), tmp_path)
    assert (paths.output, paths.model) == (str(tmp_path / "out"), str(tmp_path / "out/model"))
