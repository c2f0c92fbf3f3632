"""Any input of any step: a wrong one is refused as an input (exit code 2), never as a fault of the platform."""

import importlib
import json

import pytest

from tfsteps.engines.argo.interface import interfaces
from tfsteps.engines.argo.task import ArgoTask
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Status
from tfsteps.spec import from_plain
from tfsteps.steps import program
from tfsteps.steps.job_step import JobOutput

ODD = (
    *("null", "0", "-1", "1e400", '{"a": %s}' % ("9" * 400), "NaN", "true", "{{x}}", "\0", "\ud800", "9" * 400),
    *("[]", "[null]", "[[1]]", '["a",3]', "{}", '{"": {}}', '{"a": null}', '{"spec": 3}', '"x"'),
)
JOB = from_plain({"name": "a", "image": "i:1", "command": ["true"], "roles": {"worker": {}}})
STATUS = Status(identity=Identity(run="r", task="a"), job="a-x", uid="u", system="kubeflow")
LAUNCHED = JobOutput.of(STATUS, JOB).plain()
VALID = {
    "train": {"name": "a", "image": "i:1", "command": '["true"]', "system": "kubeflow"},
    "launch": {"name": "a", "image": "i:1", "command": '["true"]', "system": "kubeflow"},
    "evaluate_gate": {"metric": "a", "threshold": "1", "metrics": '{"a": 1}'},
    "notify": {"state": "Succeeded"},
    "wait": {"job": json.dumps(LAUNCHED)},
    "cleanup": {"system": "local"},
    "tensorboard": {},
}


@pytest.fixture
def step(tmp_path, monkeypatch, capsys):
    """Return a function that runs a step without a cluster, and returns its exit code and what it printed."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))

    def read(argv):
        return ArgoTask.from_arguments(argv, {}, tmp_path)

    monkeypatch.setitem(program.run.__kwdefaults__, "read", read)

    def run(name, inputs):
        main = importlib.import_module(f"tfsteps.steps.{name}.launcher").main
        more = {"read": read} if name == "train" else {}
        code = main(["--argo", name, *(f"{key}={text}" for key, text in inputs.items())], **more)
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run


@pytest.mark.parametrize("name", VALID)
def test_no_input_ends_a_step_as_a_fault_of_the_platform(name, step):
    assert VALID.keys() == interfaces().keys()
    inputs = [declared.name for declared in interfaces()[name].inputs]
    cases = [(key, text) for key in inputs for text in ODD]
    for key, text in cases:
        code, printed = step(name, VALID[name] | {key: text})
        assert "cannot go on" not in printed, f"{key}={text!a}: exit code {code}"


@pytest.mark.parametrize("name", ["evaluate_gate", "wait"])
def test_no_field_of_the_input_job_ends_a_step_as_a_fault_of_the_platform(name, step):
    fields = [*LAUNCHED, "metrics", "metric_notes"]
    for field, value in [(field, value) for field in fields for value in (3, "../x", [1])]:
        code, printed = step(name, VALID[name] | {"job": json.dumps(LAUNCHED | {field: value})})
        assert "cannot go on" not in printed, f"job.{field}={value!a}: exit code {code}"


@pytest.mark.parametrize(
    ("name", "inputs", "wrong"),
    [
        ("cleanup", {"cluster": "gpu"}, "cluster: gpu names a cluster, and the job system local has none. Remove it"),
        ("cleanup", {"cluster": "gpu", "system": "hai"}, "and the job system hai has none. Remove it, or set `system`"),
        (
            "wait",
            {"job": json.dumps(LAUNCHED | {"system": "local", "namespace": "ml"})},
            "namespace: ml names a cluster",
        ),
        (
            "evaluate_gate",
            {"job": '{"metrics": [1]}'},
            "job.metrics: [1] is not a mapping. Connect `job` with an output",
        ),
        (
            "evaluate_gate",
            {"job": '{"metric_notes": 3}'},
            "job.metric_notes: 3 is not a mapping. Connect `job` with an output",
        ),
        (
            "evaluate_gate",
            {"metrics": '{"a\udc80": 1}'},
            """metrics: '{"a\\udc80": 1}' is not of its type. Allowed: """,
        ),
    ],
)
def test_what_is_wrong_is_named_with_the_next_step(name, inputs, wrong, step):
    code, printed = step(name, VALID[name] | inputs)
    assert code == 2
    assert wrong in printed
