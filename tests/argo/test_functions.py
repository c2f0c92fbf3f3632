"""A Python function is a step of a Workflow: its source reaches the replicas through the compiled Workflow alone."""

import pytest
from hera.workflows import DAG, Parameter

from tfsteps import argo, train_function

pytestmark = pytest.mark.cluster


def rank(epochs: int, rate: float = 0.5) -> dict:
    """Return what a replica was called with."""
    import json  # noqa: PLC0415  a function is shipped with what it imports
    import os  # noqa: PLC0415

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print(f"rank {task['index']} has {epochs} epochs at {rate}", flush=True)
    return {"epochs": epochs, "rate": rate}


def test_a_function_is_a_step(environment, monkeypatch):
    monkeypatch.setattr(argo, "train", environment.step("train"))
    function = train_function(workers=2, image=environment.image)(rank)
    arguments = [Parameter(name="epochs", value="3")]
    with environment.workflow("function", arguments=arguments) as flow, DAG(name="main"):
        function.argo("fit", epochs="{{workflow.parameters.epochs}}")
    environment.submit(flow)
    assert environment.ended("function") == "Succeeded", environment.why("function")
    log = environment.log("function")
    assert all(f"[worker-{index}] rank {index} has 3 epochs at 0.5" in log for index in (0, 1)), log
    assert 'tfsteps result {"epochs": 3, "rate": 0.5}' in log, log
