"""Where a launcher stores the record of its run, and what it says if it cannot."""

import base64
import socket
import time

import pytest

from tests.support import s3
from tests.unit.runs.test_record_store import attempt_of
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.launcher import recorder
from tfsteps.launcher.recorder import RecordKeeper
from tfsteps.runs.record_store import RecordError
from tfsteps.runs.store import RECORDS
from tfsteps.systems.kubernetes import record_settings


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(RECORDS, raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(record_settings, "_PATIENCE_SECONDS", 0.3)


def kept(attempt):
    """Keep the record of an attempt to its end; return what is said, and the seconds that the end took."""
    keeper = RecordKeeper.of(attempt)
    keeper.begin()
    begun = time.monotonic()
    return keeper.end(), time.monotonic() - begun


def stored(folder):
    return sorted(file.name for file in folder.rglob("*") if file.is_file())


def test_without_an_address_nothing_is_done():
    assert RecordKeeper.of(attempt_of("r")) is None


def test_an_address_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(RECORDS, str(tmp_path / "claim"))
    assert kept(attempt_of("r"))[0] == ""
    assert stored(tmp_path / "claim") == ["job.json", "log", "status.json"]


@pytest.mark.parametrize(
    ("address", "message"),
    {
        "relative": "is not an address of records",
        "/proc/none": "/proc/none: ",
        "s3://nobody/x": "s3://nobody/x: ",
    }.items(),
)
def test_an_address_that_cannot_be_used_is_a_warning(address, message, monkeypatch):
    monkeypatch.setenv(RECORDS, address)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    warning, _ = kept(attempt_of("r"))
    assert warning.startswith("The record of the run is not stored: ")
    assert message in warning
    assert "\n" not in warning


@pytest.mark.parametrize("address", ["s3://runs/a", "mlflow"])
def test_an_address_that_never_answers_delays_the_end_by_little(address, monkeypatch):
    monkeypatch.setattr(recorder, "RECORD_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv(RECORDS, address)
        for name, value in s3.VARIABLES.items():
            monkeypatch.setenv(name, value)
        for variable in ("AWS_ENDPOINT_URL", "MLFLOW_TRACKING_URI"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{server.getsockname()[1]}")
        warning, seconds = kept(attempt_of("r"))
    assert "has not answered for 1 s" in warning
    assert seconds < 5


def encoded(data):
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}


def namespace(config=None, secret=None, fault=None):
    """Return the script of a server with this ConfigMap and Secret; None = there is none. `fault` answers instead."""
    answers = {"/configmaps/tfsteps": config, "/secrets/tfsteps-records": encoded(secret) if secret else None}

    def script(asked):
        if fault:
            return fault
        name = asked.path.rpartition("/")[2]
        data = next(value for path, value in answers.items() if asked.path.endswith(path))
        return refusal(404, "NotFound") if data is None else Answer(body={"metadata": {"name": name}, "data": data})

    return script


def settings(**objects):
    with serve(namespace(**objects)) as server:
        return record_settings.of_namespace(Api(server.access(), 0.3), "ns"), [item.path for item in server.asked]


def test_a_namespace_says_where_and_with_which_credentials(monkeypatch):
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    config = {RECORDS: "s3://runs/team/", "AWS_REGION": "here", "other": "x"}
    stored, _ = settings(config=config, secret=keys)
    assert (stored.address, stored.variables) == ("s3://runs/team", {"AWS_REGION": "here", **keys})


def test_a_namespace_names_an_mlflow_server():
    login = {"MLFLOW_TRACKING_USERNAME": "team", "MLFLOW_TRACKING_PASSWORD": "hunter2"}
    config = {RECORDS: "mlflow", "MLFLOW_TRACKING_URI": "https://mlflow.example/sub/", "MLFLOW_EXPERIMENT_NAME": "a b"}
    stored, _ = settings(config=config, secret=login)
    assert stored.address == "mlflow+https://mlflow.example/sub#a%20b"
    assert login.items() <= stored.variables.items()


@pytest.mark.parametrize("config", [None, {}, {RECORDS: "none"}])
def test_a_namespace_that_keeps_no_records(config):
    stored, asked = settings(config=config)
    assert stored is None
    assert len(asked) == 1, "nobody reads the Secret then"


def test_a_launcher_that_may_not_read_the_setting_keeps_no_records():
    assert settings(fault=refusal(403, "Forbidden"))[0] is None


@pytest.mark.parametrize("fault", [refusal(500), Answer(body=b"<html>"), "reset"], ids=["500", "page", "reset"])
def test_a_setting_that_is_not_known_is_a_warning(fault, monkeypatch):
    with pytest.raises(RecordError, match="whether namespace ns keeps records is not known"):
        settings(fault=fault)
    with serve(namespace(fault=fault)) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setattr(access, "find", lambda *_: server.access())
        warning, _ = kept(attempt_of("r"))
    assert "keeps records is not known" in warning


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ({"config": {RECORDS: "relative"}}, "is not an address of records"),
        ({"config": {RECORDS: "s3://b/p"}, "secret": {"AWS_ACCESS_KEY_ID": "\xff"}}, None),
    ],
)
def test_wrong_settings(objects, message):
    if message is None:
        assert settings(**objects)[0] is not None
        return
    with pytest.raises(RecordError, match=message):
        settings(**objects)
