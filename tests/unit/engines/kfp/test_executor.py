"""What a step is handed and what it hands back, in the words of the back end and of kfp.local."""

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_whole_file import fill_disk
from tfsteps.engines.kfp.executor import ExecutorInput
from tfsteps.runs.identity import Identity
from tfsteps.spec import SpecError

UUID = "0b9a5a3e-7f3b-4b53-9d47-1a2b3c4d5e6f"
RUN = "6d1f3d6e-8d5f-4c53-8b0e-3f6f5a1c2b7d"
ON_CLUSTER = f"/minio/mlpipeline/v2/artifacts/mnist/{RUN}/train/{UUID}/output_metadata.json"
LOCAL = "/data/mnist-2026-11-21-08-24-06-308409"


def executor_input(output_file="/out/x.json", parameters=None, inputs=None, outputs=None):
    artifacts = {name: {"artifacts": [item]} for name, item in (inputs or {}).items()}
    text = json.dumps(
        {
            "inputs": {"parameterValues": parameters or {}, "artifacts": artifacts},
            "outputs": {
                "outputFile": str(output_file),
                "parameters": {"job": {"outputFile": "/out/job"}},
                "artifacts": {name: {"artifacts": [item]} for name, item in (outputs or {}).items()},
            },
        }
    )
    return ExecutorInput.from_arguments(["python", "-m", "launcher", "--executor_input", text])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--executor_input"],
        ["--executor_input", "{{$}}"],
        ["--executor_input", "[]"],
        ["--executor_input", "{}"],
        ["--executor_input", '{"outputs": {}}'],
        ["--executor_input", '{"outputs": {"outputFile": 1}}'],
    ],
)
def test_not_an_executor_input(arguments):
    with pytest.raises(ValueError, match="--executor_input"):
        ExecutorInput.from_arguments(arguments)


@pytest.mark.parametrize(
    ("output_file", "identity"),
    [
        (ON_CLUSTER, Identity(run=RUN, task=UUID, pipeline="mnist")),
        (
            f"{LOCAL}/train/executor_output.json",
            Identity(run=pathlib.PurePath(LOCAL).name, task="train", pipeline="mnist"),
        ),
        (
            f"{LOCAL}/for-loop-2-iteration-1/train/executor_output.json",
            Identity(run=pathlib.PurePath(LOCAL).name, task="for-loop-2-iteration-1/train", pipeline="mnist"),
        ),
    ],
)
def test_identity_from_the_output_path(output_file, identity):
    assert executor_input(output_file).identity({}) == identity


def test_whose_run_id_counts():
    task = executor_input(ON_CLUSTER, {"run_id": "from-input"})
    assert task.identity({"TFSTEPS_RUN_ID": "from-runner"}).run == "from-runner"
    assert task.identity({}).run == "from-input"
    assert executor_input(ON_CLUSTER, {"run_id": ""}).identity({}).run == RUN
    nowhere = executor_input("/elsewhere/train/x.json").identity({})
    assert nowhere.run != executor_input("/elsewhere/train/x.json").identity({}).run, "a new one each time"
    assert nowhere.task == "train"


def test_parameters():
    task = executor_input(
        parameters={"n": 2.0, "nested": {"a": [1.0, 0.5]}, "empty": "", "flag": False, "left_out": None}
    )
    assert task.parameters == {"n": 2, "nested": {"a": [1, 0.5]}, "empty": "", "flag": False}
    assert isinstance(task.parameters["n"], int)
    assert isinstance(task.parameters["nested"]["a"][0], int)


@pytest.mark.parametrize(
    ("artifact", "path"),
    [
        ({"uri": "minio://bucket/a/model"}, "/minio/bucket/a/model"),
        ({"uri": "gs://bucket/a/model"}, "/gcs/bucket/a/model"),
        ({"uri": "/data/run/model"}, "/data/run/model"),
        ({"uri": "minio://bucket/a", "customPath": "/mnt/a"}, "/mnt/a"),
    ],
)
def test_where_artifacts_are(artifact, path):
    task = executor_input(inputs={"model": artifact}, outputs={"copy": artifact})
    assert task.artifact("model").path == pathlib.Path(path)
    assert task.output("copy").path == pathlib.Path(path)
    assert task.artifact("other") is None
    assert task.output("other") is None


def test_outputs(tmp_path):
    file = tmp_path / "made" / "by" / "us" / "executor_output.json"
    model = {"name": "model", "uri": "minio://bucket/model"}
    logs = {"name": "logs", "uri": "minio://bucket/logs"}
    executor_input(file, outputs={"model": model, "logs": logs}).write(
        {"n": 2, "url": ""}, {"model": {"path": "/data"}}
    )
    assert json.loads(file.read_text()) == {
        "parameterValues": {"n": 2, "url": ""},
        "artifacts": {
            "model": {"artifacts": [{**model, "metadata": {"path": "/data"}}]},
            "logs": {"artifacts": [{**logs, "metadata": {}}]},
        },
    }
    assert list(file.parent.iterdir()) == [file], "nothing half-written stays"


def test_outputs_that_do_not_fit_leave_the_old_ones(tmp_path, monkeypatch):
    file = tmp_path / "executor_output.json"
    executor_input(file).write({"n": 1}, {})
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        executor_input(file).write({"n": 2}, {})
    assert json.loads(file.read_text())["parameterValues"] == {"n": 1}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_only_whole_floats_change(value):
    shown = executor_input(parameters={"x": value}).parameters.get("x")
    assert shown == value, "equal, though not always of one type"


def test_a_run_id_that_leads_to_another_folder_is_refused():
    with pytest.raises(SpecError, match=r"run_id: '\.\./x' leads to another folder"):
        executor_input(ON_CLUSTER, {"run_id": "../x"}).identity({})
    with pytest.raises(SpecError, match=r"run_id: 'a/\.\./b' leads to another folder"):
        executor_input(ON_CLUSTER).identity({"TFSTEPS_RUN_ID": "a/../b"})
