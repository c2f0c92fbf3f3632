"""What is no number does not pass the gate."""

import json
import math

import pytest

from tfsteps.engines.kfp.executor import ExecutorInput
from tfsteps.steps.evaluate_gate import launcher


@pytest.mark.parametrize("value", [math.nan, None, "0.9", True])
def test_not_a_number(value, tmp_path, capsys, monkeypatch):
    given = {"metric": "loss", "threshold": 0.5, "metrics": {"loss": value}}
    monkeypatch.setattr(ExecutorInput, "parameters", given)  # JSON has no NaN; engines that write one exist
    text = json.dumps({"outputs": {"outputFile": str(tmp_path / "out.json")}})
    assert launcher.main(["--executor_input", text]) == 2
    assert "metrics.loss" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()
