"""Every pipeline runs to its end on Argo's real controller, as `tfsteps submit` starts the compiled one."""

import datetime as dt
import json
import subprocess
import sys

import pytest

from tests.pipelines.conftest import ROOT
from tests.support.waiting import until
from tfsteps.engines.argo.workflow import WORKFLOWS

pytestmark = [pytest.mark.cluster, pytest.mark.tensorflow]

SMALL = {"examples": 500}
QUICK = {**SMALL, "settings": {"EPOCHS": "1"}}
TRIALS = [{"LEARNING_RATE": rate, "EPOCHS": "1"} for rate in ("0.0001", "0.5")]
RUNS = {  # the name of a Workflow: the pipeline, its inputs
    "finalizer": ("finalizer", {}),
    "notifications": ("notifications", {}),
    "bad-data": ("nightly", {**QUICK, "least": 501}),
    "side-by-side": ("side_by_side", {**SMALL, "champion": {"EPOCHS": "1"}, "challenger": {"EPOCHS": "1"}}),
    "nightly": ("nightly", {**QUICK, "accuracy": 0}),
    "fan-out": ("fan_out", {**SMALL, "trials": TRIALS}),
    "mnist": ("mnist", {**QUICK, "workers": 1, "accuracy": 1.01}),
    "parameter-server": ("parameter_server", {**QUICK, "workers": 1, "servers": 1}),
}


@pytest.fixture(scope="module")
def runs(environment, claim, image, digits_image, tmp_path_factory):
    """All Workflows, which run side by side; the node's folder behind their claim."""
    folder = tmp_path_factory.mktemp("compiled")
    for name, (pipeline, inputs) in RUNS.items():
        text = (ROOT / f"pipelines/compiled/{pipeline}.argo.yaml").read_text()
        for ours, built in (("tfsteps/launcher:0.1.0", image), ("tfsteps/digits:0.1.0", digits_image)):
            assert ours in text
            text = text.replace(ours, built)
        file = folder / f"{name}.yaml"
        file.write_text(text)
        submit(environment, file, name, inputs)
    return claim


def submit(environment, file, name, inputs):
    """Start a Workflow as a user does."""
    options = [
        f"--param={key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in inputs.items()
    ]
    command = [
        sys.executable,
        "-c",
        "from tfsteps.cli import main; main()",
        "submit",
        file,
        "--namespace",
        environment.namespace,
        "--name",
        name,
    ]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    environment.flows[name] = environment.cluster.api.get(WORKFLOWS, environment.namespace, name)["metadata"]


def succeeded(environment, name):
    """Wait for a Workflow's end, and return its uid."""
    assert environment.ended(name, 300) == "Succeeded", environment.why(name)
    return environment.flows[name]["uid"]


def seen(path, folder):
    """Return a path of the pods as one of the node."""
    assert path.startswith("/mnt/tfsteps/"), path
    return folder / path.removeprefix("/mnt/tfsteps/")


def test_finalizer(environment, runs):
    assert environment.ended("finalizer") == "Failed"
    (removed,) = environment.decoded("finalizer", "cleanup", "removed")
    assert removed.startswith("diverges-")
    assert "worker-1" in environment.output("finalizer", "train", "failure")
    until(lambda: environment.jobs("finalizer") == [])


def test_notifications_without_a_secret(environment, runs):
    assert environment.ended("notifications") == "Failed"
    assert "worker-1" in environment.output("notifications", "train", "failure")
    assert environment.output("notifications", "notify", "delivered") == "false"


def test_data_that_are_not_fit_train_nothing(environment, runs):
    assert environment.ended("bad-data") == "Failed"
    nodes = environment.nodes("bad-data")
    assert nodes["check"]["phase"] == "Failed"
    assert nodes["train"]["phase"] == "Omitted"
    assert environment.jobs("bad-data") == []


def test_side_by_side(environment, runs):
    uid = succeeded(environment, "side-by-side")
    jobs = [environment.decoded("side-by-side", item, "job") for item in ("champion", "challenger")]
    assert len({job["name"] for job in jobs}) == len({job["output"] for job in jobs}) == 2
    assert sorted(job["name"] for job in environment.jobs("side-by-side")) == sorted(job["name"] for job in jobs)
    for job in jobs:
        assert job["output"].startswith(f"/mnt/tfsteps/tfsteps/{uid}/")
        assert (seen(job["model"], runs) / "saved_model.pb").is_file()
    first_end = min(dt.datetime.fromisoformat(job["ended"]).timestamp() for job in jobs)
    assert max(job["created"] for job in jobs) < first_end, "neither waited for the other"
    assert environment.output("side-by-side", "compare", "winner") in [job["name"] for job in jobs]


def test_nightly(environment, runs):
    succeeded(environment, "nightly")
    job = environment.decoded("nightly", "train", "job")
    folder = environment.output("nightly", "promote", "folder")
    assert folder == f"/mnt/tfsteps/serving/digits/{int(job['created'])}"
    assert (seen(folder, runs) / "saved_model.pb").is_file()
    assert job["metrics"]["accuracy"] == environment.decoded("nightly", "evaluate-gate", "value")


def test_fan_out(environment, runs):
    uid = succeeded(environment, "fan-out")
    assert len(environment.jobs("fan-out")) == len(TRIALS)
    assert environment.decoded("fan-out", "best", "settings")["LEARNING_RATE"] == "0.5"
    assert (runs / f"exported/{uid}/1/saved_model.pb").is_file()


def test_mnist(environment, runs):
    uid = succeeded(environment, "mnist")
    metrics = environment.decoded("mnist", "train", "metrics")
    assert set(metrics) == {"accuracy", "loss"}
    assert environment.decoded("mnist", "evaluate", "accuracy_seen") == pytest.approx(metrics["accuracy"])
    assert environment.output("mnist", "evaluate", "decision") == "reject"
    assert environment.nodes("mnist")["export"]["phase"] == "Skipped"
    assert not (runs / f"exported/{uid}").exists()


def test_parameter_server(environment, runs):
    succeeded(environment, "parameter-server")
    (job,) = environment.jobs("parameter-server")
    assert job["name"].startswith("digits-ps-")
    assert set(environment.decoded("parameter-server", "train", "metrics")) == {"accuracy", "loss"}
