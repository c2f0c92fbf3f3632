"""Where a job's outputs go on a cluster when it does not say so itself."""

import pathlib

import pytest

from tfsteps import spec, systems
from tfsteps.identity import Identity

CLAIM = {"pvc": "data", "mount": "/data"}
EXPORT = {"nfs": {"server": "filer", "path": "/exports"}, "mount": "/nfs"}
SCRATCH = {"empty_dir": "1Gi", "mount": "/scratch"}
NOWHERE = "/tmp/tfsteps"


def job(volumes=(), **fields):
    plain = {"name": "mnist", "image": "a:1", "command": ["true"], "roles": {"worker": {}}, "volumes": list(volumes)}
    return spec.from_plain({**plain, **fields}, "test")


def output(made, task="train"):
    here = pathlib.Path()
    return systems.get("kubeflow").places(made, Identity(run="r1", task=task), here).output


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
    made = job(volumes)
    assert output(made) == f"{folder}/r1/train"
    lost = [each for each in systems.get("kubeflow").warnings(made) if "lost with their pods" in each]
    assert bool(lost) == (folder == NOWHERE)


def test_what_the_job_says_counts():
    made = job([CLAIM], output_dir="/other/{name}/{run_id}/{task}")
    assert output(made) == "/other/mnist/r1/train"
    assert systems.get("kubeflow").warnings(made) == []


@pytest.mark.parametrize("task", ["mnist-x2k4[0].train", "fan-out-x2k4.train(0:LEARNING_RATE:0.1)", "a*b?{c}"])
def test_tensorflow_finds_its_checkpoints_whatever_a_task_is_called(task):
    folder = output(job([CLAIM]), task)
    assert not set(folder) & set("[]*?{}():"), folder
    assert folder != output(job([CLAIM]), f"{task}-"), "two tasks never share a folder"


def test_a_task_with_a_plain_name_is_found_by_it():
    assert output(job([CLAIM]), "6b6f4c1e-8a55-4b7e-9d10-0c4a55ba5c65").endswith(
        "/6b6f4c1e-8a55-4b7e-9d10-0c4a55ba5c65"
    )
