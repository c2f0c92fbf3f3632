"""Each job that `tfsteps init --template` writes runs here, with fewer steps. `mirrored` is in test_cli.py."""

import json
import pathlib
import re
import subprocess

import pytest

from tests.unit.cli.command import COMMAND
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.events import State

pytestmark = pytest.mark.tensorflow

SHORTER = {'[--epochs, "5"]': '[--epochs, "2"]', '[--steps, "200"]': '[--steps, "60"]'}
ONE_WORKER = {"ps", "tf1"}  # two do the same, and each process takes seconds to import TensorFlow
RESULTS = {
    "single": ({"loss", "accuracy"}, [r"\[worker-0\] Epoch 2/2"]),
    "keras": (
        {"loss", "accuracy", "val_accuracy"},
        [r"\[worker-0\] epoch 2 accuracy", r"\[worker-1\] epoch 2 accuracy"],
    ),
    "evaluator": ({"loss", "eval_accuracy"}, [r"\[worker-1\] step 40 ", r"\[evaluator-0\] evaluated step 40: "]),
    "ps": ({"loss"}, [r"\[chief-0\] epoch 2 ", r"\[worker-0\] serves as worker 0", r"\[ps-0\] serves as ps 0"]),
    "tf1": ({"loss"}, [r"\[worker-0\] step \d+ ", r"\[ps-0\] serves as ps 0"]),
}
"""By template: the metrics of the job, and lines that it prints."""


def tfsteps(*args):
    return subprocess.run([COMMAND, *args], capture_output=True, text=True, check=False, timeout=250)


@pytest.mark.parametrize("template", RESULTS)
def test_a_template_runs_as_it_is_written(template, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tfsteps("init", "first", "--template", template).returncode == 0
    job = pathlib.Path("first/job.yaml")
    text = job.read_text()
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    assert text != job.read_text()
    if template in ONE_WORKER:
        text = text.replace("replicas: 2", "replicas: 1")
    job.write_text(text)
    done = tfsteps("run", str(job), "--run-id", "r1", "--output", "json", "--no-tensorboard")
    assert done.returncode == ExitCode.SUCCEEDED, done.stderr
    outputs = json.loads(done.stdout)
    metrics, lines = RESULTS[template]
    assert outputs["job"]["state"] == State.SUCCEEDED
    assert outputs["metrics"].keys() == metrics
    assert outputs["metrics"]["loss"] < 0.8
    assert (pathlib.Path(outputs["model"]) / "saved_model.pb").exists()
    log = tfsteps("logs", "r1").stdout
    assert [line for line in lines if not re.search(line, log)] == []
    if template == "keras":
        first, second = (re.findall(rf"\[worker-{index}\] (epoch .*)", log) for index in (0, 1))
        assert first == second, "all workers have the same model, and averages over all of them"
