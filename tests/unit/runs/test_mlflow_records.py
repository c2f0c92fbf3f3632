"""Records on an MLflow server: what its users see of a run, and what tfsteps reads back."""

import base64
import json
import math
import os
import time

import msgspec
import pytest

from tests.support import mlflow_server
from tests.support.finished import START
from tests.unit.runs.test_record_store import attempt_of, home, opened, put  # noqa: F401  a fixture
from tfsteps.runs import store
from tfsteps.runs.code import Code
from tfsteps.runs.events import State
from tfsteps.runs.record_store import RecordError, RecordSettings
from tfsteps.runs.status import FailureSummary
from tfsteps.spec import from_plain

ARGS = ["--lr", "0.1", "--api-key", "hunter2", "--flag", '--we"ird', "x" * 900]


@pytest.fixture
def server(monkeypatch):
    """Yield the server that MLFLOW_TRACKING_URI names."""
    with mlflow_server.served() as (state, address):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        yield state


def trained(run="a run/of ünusual = names", **fields):
    """Return an attempt that has ended, with a job, curves and metrics."""
    attempt = attempt_of(run, log=b"2026-01-01T00:00:00.000000Z worker-0 said\n")
    job = {"name": "x", "image": "x:1", "command": ["train"], "args": ARGS, "roles": {"worker": {"replicas": 2}}}
    (attempt.folder / "job.json").write_bytes(msgspec.json.encode(from_plain(job)))
    points = [[step, 1 / (step + 1)] for step in range(1500)]
    curves = [
        {"run": "train", "points": points, "last": [1500, math.nan]},  # as of a run that diverged at its end
        {"run": ".", "points": [[1, 7.0]], "last": [1, 7]},
    ]
    (attempt.folder / "curves.json").write_text(json.dumps({"charts": [{"tag": "loss", "curves": curves}]}))
    ended = {"created": START, "started": START + 1, "ended": START + 60, "metrics": {"accuracy": 0.5, "loss": 0.25}}
    attempt.write(msgspec.structs.replace(attempt.status(), **{"state": State.SUCCEEDED, **ended, **fields}))
    return attempt


def pairs(run, kind):
    return {item["key"]: item["value"] for item in run["data"][kind]}


def test_a_run_of_mlflow_has_what_its_users_look_for(server):
    records = opened("mlflow")
    code = Code(commit="0a1b2c3d4e5f6789", changed=False)
    attempt = trained(state=State.FAILED, code=code, failure=FailureSummary(summary="worker-1 failed."))
    put(records, attempt)
    [(run_id, run)] = server.runs.items()
    assert server.experiments == {"tfsteps": "1"}
    assert run["info"]["status"] == "FAILED"
    assert run["info"]["run_name"] == "a run/of ünusual = names/task"
    assert (run["info"]["start_time"], run["info"]["end_time"]) == (START * 1000, (START + 60) * 1000)
    parameters = pairs(run, "params")
    assert parameters["args --lr"] == "0.1"
    assert parameters["roles.worker.replicas"] == "2"
    assert parameters["args --flag"] == "true"
    assert parameters["args --we_ird"] == "x" * 500
    assert "hunter2" not in str(server.runs)
    tags = pairs(run, "tags")
    assert tags["mlflow.source.git.commit"] == "0a1b2c3d4e5f6789"
    assert tags["mlflow.note.content"] == "worker-1 failed."
    assert (tags["tfsteps.state"], tags["tfsteps.task"]) == ("failed", "task")
    values = server.metrics[run_id]
    assert len([key for key, _, _ in values if key == "train/loss"]) == 1500
    assert ("accuracy", 0, 0.5) in values
    assert {(step, value) for key, step, value in values if key == "loss"} == {(0, 0.25)}, "another curve of that name"
    assert {path.rpartition("/")[2] for path in server.files} == {"status.json", "job.json", "curves.json", "log"}


def test_an_attempt_that_is_stored_again_stays_one_run(server, tmp_path):
    attempt = trained(state=State.RUNNING, ended=None, metrics={})
    put(opened("mlflow"), attempt)
    [run_id] = server.runs
    assert server.runs[run_id]["info"]["status"] == "RUNNING"
    assert server.metrics.get(run_id, {}) == {}, "an attempt that runs has no last values"
    ended = {"state": State.CANCELLED, "ended": START + 9, "metrics": {"loss": 7.0}}
    attempt.write(msgspec.structs.replace(attempt.status(), **ended))
    (attempt.folder / "job.json").write_text('{"name": "as another version writes it"}')
    put(opened("mlflow"), attempt)  # of another launcher, which adopted the job
    assert list(server.runs) == [run_id]
    assert server.runs[run_id]["info"]["status"] == "KILLED"
    assert {(step, value) for key, step, value in server.metrics[run_id] if key == "loss"} == {(1, 7.0)}
    opened("mlflow").copy(tmp_path / "copy")
    with store.using(tmp_path / "copy"):
        [copy] = store.attempts(store.runs()[0])
        assert copy.status().state is State.CANCELLED
        assert copy.copied_from.startswith("mlflow+http://127.0.0.1:")


def test_names_that_patterns_of_mlflow_match_are_not_mixed_up(server, tmp_path):
    records = opened("mlflow")
    for run in ("a_b", "aXb", *(f"more-{place}" for place in range(7))):  # of several pages
        put(records, attempt_of(run))
    assert len(server.runs) == 9
    for run in ("a_b", ""):
        records.copy(tmp_path / "copy", run)
    with store.using(tmp_path / "copy"):
        assert len(store.runs()) == 9
        assert (store.attempts("a_b")[0].folder / "log").exists()
        assert not (store.attempts("aXb")[0].folder / "log").exists()


def test_what_others_log_to_the_experiment_is_left_alone(server, tmp_path):
    records = opened("mlflow")
    put(records, attempt_of("ours"))
    server.runs["f" * 32] = {
        "info": {"run_id": "f" * 32, "experiment_id": "1", "artifact_uri": "s3://x", "start_time": 1},
        "data": {"tags": []},
    }
    records.copy(tmp_path / "copy")
    with store.using(tmp_path / "copy"):
        assert store.runs() == ["ours"]


@pytest.mark.usefixtures("server")
def test_an_experiment_that_is_not_there_has_no_records(tmp_path):
    opened("mlflow", MLFLOW_EXPERIMENT_NAME="none").copy(tmp_path / "copy")
    with store.using(tmp_path / "copy"):
        assert store.runs() == []


def test_experiments_are_apart(server):
    put(opened("mlflow", MLFLOW_EXPERIMENT_NAME="vision team"), attempt_of("r"))
    address = opened("mlflow", MLFLOW_EXPERIMENT_NAME="vision team").address
    assert address.endswith("#vision%20team")
    assert list(server.experiments) == ["vision team"]
    assert opened(address).address == address


@pytest.mark.parametrize(
    ("variables", "header"),
    [
        ({}, None),
        (
            {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p@ss"},
            "Basic " + base64.b64encode(b"u:p@ss").decode(),
        ),
        ({"MLFLOW_TRACKING_TOKEN": "secret-token"}, "Bearer secret-token"),
    ],
)
def test_credentials_are_those_of_mlflow(server, variables, header):
    put(opened("mlflow", **variables), attempt_of("r"))
    assert server.headers.get("Authorization") == header


def test_a_password_in_the_address_is_in_no_message(server):
    address = os.environ["MLFLOW_TRACKING_URI"].replace("http://", "http://u:hunter2@")
    records = opened(f"mlflow+{address}")
    assert "hunter2" not in records.address
    put(records, attempt_of("r"))
    assert server.headers["Authorization"] == "Basic " + base64.b64encode(b"u:hunter2").decode()


def test_a_refusal_is_one_line(server):
    server.refuses = 401
    with pytest.raises(RecordError, match=r"^mlflow\+http://[^\n]*was answered with 401: You are not auth[^\n]*$"):
        put(opened("mlflow"), attempt_of("r"))


def test_a_server_that_takes_no_files_has_the_run_all_the_same(server):
    server.serves_artifacts = False
    with pytest.raises(RecordError, match=r"does not take files, and keeps them at file:/1/.*--serve-artifacts"):
        put(opened("mlflow"), trained())
    [run] = server.runs.values()
    assert run["info"]["status"] == "FINISHED"


def test_a_record_that_comes_too_late_is_not_stored(server):
    with pytest.raises(RecordError, match=r"took too long; the run in MLflow and what follows are missing"):
        opened("mlflow").put(attempt_of("r"), time.monotonic() - 1)
    assert server.runs == {}


@pytest.mark.parametrize(
    ("address", "uri", "problem"),
    [
        ("mlflow", "", r"MLFLOW_TRACKING_URI is ''; write the http"),
        ("mlflow", "databricks", r"MLFLOW_TRACKING_URI is 'databricks'"),
        ("mlflow+file:///x", "", "it has no host"),
        ("mlflow+http://", "", "it has no host"),
    ],
)
def test_what_is_no_server(address, uri, problem):
    with pytest.raises(RecordError, match=rf"is not an address of records: {problem}"):
        RecordSettings.of(address, {"MLFLOW_TRACKING_URI": uri})
