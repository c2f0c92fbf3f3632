"""What is no number does not pass the gate, and what is not known of a number is said."""

import json
import math

import pytest

from tfsteps.engines.kfp.executor import ExecutorInput
from tfsteps.steps.evaluate_gate import launcher


@pytest.mark.parametrize("value", [math.nan, None, "0.9", True])
def test_not_a_number(value, tmp_path, capsys, monkeypatch):
    inputs = {"metric": "loss", "threshold": 0.5, "metrics": {"loss": value}}
    monkeypatch.setattr(ExecutorInput, "parameters", inputs)  # JSON has no NaN; engines that write one exist
    text = json.dumps({"outputs": {"outputFile": str(tmp_path / "out.json")}})
    assert launcher.main(["--executor_input", text]) == 2
    assert "metrics.loss" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("name", ["job", "metrics"])
def test_not_a_mapping(name, tmp_path, capsys):
    """A back end of Kubeflow Pipelines does not compare what an earlier step has written with the input's type."""
    assert run(tmp_path, {name: [1]}) == 2
    assert f"{name}: [1] is not a mapping. Connect `{name}` with an output" in capsys.readouterr().err


NOTE = "Metric accuracy, 0.48 at step 48: a later value may be missing, because events.1 is damaged at byte 40."
UNSET = "Metric accuracy is not set: no scalar was found in the event files for `accuracy`."


def run(tmp_path, parameters, artifact=None):
    listed = {"artifact": {"artifacts": [{"name": "metrics", "uri": "", "metadata": artifact}]}} if artifact else {}
    parameter_values = {"metric": "accuracy", "threshold": 0.4, "required": True, **parameters}
    inputs = {"parameterValues": parameter_values, "artifacts": listed}
    text = json.dumps({"inputs": inputs, "outputs": {"outputFile": str(tmp_path / "out.json")}})
    return launcher.main(["--executor_input", text])


@pytest.mark.parametrize(
    ("parameters", "artifact", "noted"),
    [
        ({"job": {"metrics": {"accuracy": 0.48}, "metric_notes": {"accuracy": NOTE}}}, None, True),
        ({}, {"accuracy": 0.48, "accuracy_note": NOTE}, True),
        ({"job": {"metric_notes": {"accuracy": UNSET}}}, {"accuracy": 0.48}, False),
        (
            {"job": {"metrics": {"accuracy": 0.1}, "metric_notes": {"accuracy": NOTE}}, "metrics": {"accuracy": 0.5}},
            None,
            False,
        ),
    ],
    ids=["job", "artifact", "the artifact has it", "given by hand"],
)
def test_what_is_not_known_of_the_value_is_in_the_message(parameters, artifact, noted, tmp_path, capsys):
    assert run(tmp_path, parameters, artifact) == 0
    text = capsys.readouterr().out
    assert ("is at least 0.4: pass. " + NOTE in text) is noted
    assert ("Metric accuracy" in text) is noted


@pytest.mark.parametrize("where", ["job", "artifact"])
def test_why_a_metric_is_not_set_is_in_the_error(where, tmp_path, capsys):
    by = {"job": ({"job": {"metric_notes": {"accuracy": UNSET}}},), "artifact": ({}, {"accuracy_note": UNSET})}
    assert run(tmp_path, *by[where]) == 2
    assert f"is not among the metrics ({UNSET})" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()
