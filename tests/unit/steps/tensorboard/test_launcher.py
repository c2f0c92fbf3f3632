"""The tensorboard step where it starts nothing: on this machine, and with inputs that cannot work."""

import json

import pytest

from tfsteps.engines.base import TENSORBOARD_URL
from tfsteps.steps.tensorboard import launcher

ARTIFACT = {"name": "tensorboard_link", "uri": "", "metadata": {}}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the step, and returns its exit code, its outputs and its page with the link."""

    def run(**inputs):
        link, outputs = tmp_path / "link" / "link.md", tmp_path / "out.json"
        text = {
            "inputs": {"parameterValues": {"run_id": "r1", **inputs}},
            "outputs": {
                "outputFile": str(outputs),
                "artifacts": {"tensorboard_link": {"artifacts": [{**ARTIFACT, "uri": str(link)}]}},
            },
        }
        code = launcher.main(["--executor_input", json.dumps(text)])
        parameters = json.loads(outputs.read_text())["parameterValues"] if outputs.exists() else None
        return code, parameters, link.read_text() if link.exists() else ""

    return run


def test_on_this_machine_the_command_is_named(run, monkeypatch, capsys):
    monkeypatch.delenv(TENSORBOARD_URL, raising=False)
    code, parameters, link = run()
    assert (code, parameters) == (0, {"tensorboard_url": ""})
    assert "`tfsteps tensorboard r1` shows the curves" in capsys.readouterr().out
    assert link.startswith("No TensorBoard is running.")


def test_on_this_machine_the_pipelines_tensorboard_is_the_one(run, monkeypatch):
    monkeypatch.setenv(TENSORBOARD_URL, "http://127.0.0.1:6006/a(b)/")
    code, parameters, link = run()
    assert (code, parameters) == (0, {"tensorboard_url": "http://127.0.0.1:6006/a(b)/"})
    assert link.startswith("[Open TensorBoard](http://127.0.0.1:6006/a%28b%29/)\n")


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({"idle": "soon"}, "idle: 'soon' is not a duration"),
        ({"keep_for": "-1"}, "keep_for: "),
        ({"log_dir": "/data/{run}"}, "log_dir: '/data/{run}' has the unknown placeholder {run}"),
        ({"spec": {"volume": []}}, "volume: is not a known field"),
        ({"env": {"A": {"secret": "s"}}}, "env.A"),
    ],
)
def test_wrong_inputs(inputs, problem, run, capsys):
    code, parameters, _ = run(**inputs)
    assert (code, parameters) == (2, None)
    assert problem in capsys.readouterr().err
