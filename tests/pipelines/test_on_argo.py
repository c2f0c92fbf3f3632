"""Every pipeline runs to its end on Argo's real controller, as `tfsteps submit` starts the compiled one."""

import datetime as dt
import json
import subprocess
import sys

import pytest

from tests.pipelines.conftest import ROOT
from tests.support.waiting import until
from tfsteps.systems.kubernetes.pipeline.workflow import WORKFLOWS

pytestmark = [pytest.mark.cluster, pytest.mark.tensorflow]

SMALL = {"examples": 500}
QUICK = {**SMALL, "settings": {"EPOCHS": "1"}}
TRIALS = [{"LEARNING_RATE": rate, "EPOCHS": "1"} for rate in ("0.0001", "0.5")]
RUNS = {  # the name of a Workflow: the pipeline, its inputs
    "finalizer": ("finalizer", {}),
    "bad-data": ("nightly", {**QUICK, "least": 501}),
    "side-by-side": ("side_by_side", {**SMALL, "champion": {"EPOCHS": "1"}, "challenger": {"EPOCHS": "1"}}),
    "nightly": ("nightly", {**QUICK, "accuracy": 0}),
    "fan-out": ("fan_out", {**SMALL, "trials": TRIALS}),
    "mnist": ("mnist", {**QUICK, "workers": 1, "accuracy": 1.01}),
    "parameter-server": ("parameter_server", {**QUICK, "workers": 1, "servers": 1}),
}


@pytest.fixture(scope="module")
def runs(world, claim, image, digits_image, tmp_path_factory):
    """All Workflows, which run side by side; the node's folder behind their claim."""
    folder = tmp_path_factory.mktemp("compiled")
    for name, (pipeline, inputs) in RUNS.items():
        text = (ROOT / f"pipelines/compiled/{pipeline}.argo.yaml").read_text()
        for ours, built in (("tfsteps/launcher:0.1.0", image), ("tfsteps/digits:0.1.0", digits_image)):
            assert ours in text
            text = text.replace(ours, built)
        file = folder / f"{name}.yaml"
        file.write_text(text)
        submit(world, file, name, inputs)
    return claim


def submit(world, file, name, inputs):
    """Start a Workflow as a user does."""
    given = [f"--param={key}={each if isinstance(each, str) else json.dumps(each)}" for key, each in inputs.items()]
    command = [
        sys.executable,
        "-c",
        "from tfsteps.cli import main; main()",
        "submit",
        file,
        "--namespace",
        world.namespace,
        "--name",
        name,
    ]
    done = subprocess.run([*command, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    world.flows[name] = world.cluster.api.get(WORKFLOWS, world.namespace, name)["metadata"]


def succeeded(world, name):
    """Wait for a Workflow's end, and return its uid."""
    assert world.ended(name, 300) == "Succeeded", world.why(name)
    return world.flows[name]["uid"]


def seen(path, folder):
    """Return a path of the pods as one of the node."""
    assert path.startswith("/mnt/tfsteps/"), path
    return folder / path.removeprefix("/mnt/tfsteps/")


def test_finalizer(world, runs):
    assert world.ended("finalizer") == "Failed"
    (removed,) = world.decoded("finalizer", "cleanup", "removed")
    assert removed.startswith("diverges-")
    assert "worker-1" in world.output("finalizer", "train", "failure")
    until(lambda: world.jobs("finalizer") == [])


def test_data_that_are_not_fit_train_nothing(world, runs):
    assert world.ended("bad-data") == "Failed"
    nodes = world.nodes("bad-data")
    assert nodes["check"]["phase"] == "Failed"
    assert nodes["train"]["phase"] == "Omitted"
    assert world.jobs("bad-data") == []


def test_side_by_side(world, runs):
    uid = succeeded(world, "side-by-side")
    jobs = [world.decoded("side-by-side", each, "job") for each in ("champion", "challenger")]
    assert len({each["name"] for each in jobs}) == len({each["output"] for each in jobs}) == 2
    assert sorted(each["name"] for each in world.jobs("side-by-side")) == sorted(each["name"] for each in jobs)
    for each in jobs:
        assert each["output"].startswith(f"/mnt/tfsteps/tfsteps/{uid}/")
        assert (seen(each["model"], runs) / "saved_model.pb").is_file()
    first_end = min(dt.datetime.fromisoformat(each["ended"]).timestamp() for each in jobs)
    assert max(each["created"] for each in jobs) < first_end, "neither waited for the other"
    assert world.output("side-by-side", "compare", "winner") in [each["name"] for each in jobs]


def test_nightly(world, runs):
    succeeded(world, "nightly")
    job = world.decoded("nightly", "train", "job")
    folder = world.output("nightly", "promote", "folder")
    assert folder == f"/mnt/tfsteps/serving/digits/{int(job['created'])}"
    assert (seen(folder, runs) / "saved_model.pb").is_file()
    assert job["metrics"]["accuracy"] == world.decoded("nightly", "evaluate-gate", "value")


def test_fan_out(world, runs):
    uid = succeeded(world, "fan-out")
    assert len(world.jobs("fan-out")) == len(TRIALS)
    assert world.decoded("fan-out", "best", "settings")["LEARNING_RATE"] == "0.5"
    assert (runs / f"exported/{uid}/1/saved_model.pb").is_file()


def test_mnist(world, runs):
    uid = succeeded(world, "mnist")
    metrics = world.decoded("mnist", "train", "metrics")
    assert set(metrics) == {"accuracy", "loss"}
    assert world.decoded("mnist", "evaluate", "accuracy_seen") == pytest.approx(metrics["accuracy"])
    assert world.output("mnist", "evaluate", "decision") == "reject"
    assert world.nodes("mnist")["export"]["phase"] == "Skipped"
    assert not (runs / f"exported/{uid}").exists()


def test_parameter_server(world, runs):
    succeeded(world, "parameter-server")
    (job,) = world.jobs("parameter-server")
    assert job["name"].startswith("digits-ps-")
    assert set(world.decoded("parameter-server", "train", "metrics")) == {"accuracy", "loss"}
