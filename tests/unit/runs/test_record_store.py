"""Records at an address: what is stored of an attempt, and copies of it that say that they are copies."""

import time

import msgspec
import pytest

from tests.support import gcs, mlflow_server, s3
from tfsteps.runs import record_store, store
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.log_file import GAP, LogReader
from tfsteps.runs.record_store import RecordError, RecordSettings, RecordStore
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder

ODD = "a run/of ünusual = names, ~: 100%"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "home"


def attempt_of(run, task="task", number=0, state=State.SUCCEEDED, log=b""):
    """Return an attempt with records, as a launcher leaves them."""
    identity = Identity(run=run, task=task, attempt=number)
    attempt = AttemptFolder.of(identity)
    with attempt.claim():
        (attempt.folder / "job.json").write_text('{"name": "x"}')
        attempt.log.write_bytes(log)
        attempt.write(Status(identity=identity, job="x", system="jobs", state=state))
    return attempt


def put(records, attempt):
    records.put(attempt, time.monotonic() + 60)


def opened(address, **variables):
    return RecordStore(RecordSettings.of(str(address), variables))


@pytest.fixture(params=["folder", "s3", "gs", "mlflow"])
def records(request, tmp_path):
    """Return the records at an address of each kind."""
    if request.param == "folder":
        yield opened(tmp_path / "claim/records")
    elif request.param == "mlflow":
        with mlflow_server.served() as (_, address):
            yield opened("mlflow", MLFLOW_TRACKING_URI=address)
    elif request.param == "gs":
        with gcs.served_xml_bucket("runs") as variables:
            yield opened("gs://runs/a/b/", **variables)
    else:
        with s3.served_bucket("runs", "127.0.0.1") as (_, endpoint):
            yield opened("s3://runs/a/b/", AWS_ENDPOINT_URL=f"http://{endpoint}", **s3.VARIABLES)


def copied(records, tmp_path, run=""):
    """Return the attempts in a copy."""
    target = tmp_path / "copy"
    records.copy(target, run)
    with store.using(target):
        return {name: store.attempts(name) for name in store.runs()}


def test_a_copy_has_all_that_was_stored(records, tmp_path):
    for run, task in ((ODD, "train/one"), ("second", "task")):
        put(records, attempt_of(run, task, log=b"2026-01-01T00:00:00.000000Z worker-0 said\n"))
    listed = copied(records, tmp_path)
    assert set(listed) == {ODD, "second"}
    [attempt] = listed[ODD]
    assert attempt.status().identity == Identity(run=ODD, task="train/one")
    assert not attempt.log.exists(), "a list needs no logs"
    [attempt] = copied(records, tmp_path, ODD)[ODD]
    assert attempt.log.read_bytes().endswith(b"said\n")
    assert attempt.copied_from == records.address


def test_a_copy_of_a_job_that_has_not_ended_is_neither_running_nor_lost(tmp_path):
    records = opened(tmp_path / "records")
    put(records, attempt_of("r", state=State.RUNNING))
    [attempt] = copied(records, tmp_path)["r"]
    assert attempt.alive().unknown
    assert attempt.status().state is State.UNKNOWN
    assert attempt.terminate().unknown


def test_what_is_changed_is_copied_again_and_what_is_gone_is_removed(tmp_path):
    records = opened(tmp_path / "records")
    attempt = attempt_of("r", state=State.RUNNING)
    put(records, attempt)
    put(records, attempt_of("other"))
    copied(records, tmp_path)
    attempt.write(msgspec.structs.replace(attempt.status(), state=State.FAILED, message="m" * 50))
    put(records, attempt)
    for file in sorted((tmp_path / "records/runs/other").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    listed = copied(records, tmp_path)
    assert listed["r"][0].status().state is State.FAILED
    assert not listed.get("other")


def test_files_of_others_are_left_alone(tmp_path):
    records = opened(tmp_path / "records")
    put(records, attempt_of("r"))
    for path in ("runs/r/readme.txt", "runs/.hidden/t/0/status.json", "notes/a/b/c/d"):
        file = tmp_path / "records" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("?")
    assert list(copied(records, tmp_path)) == ["r"]


@pytest.mark.parametrize("segments", [False, True])
def test_of_a_long_log_the_end_is_stored_and_what_lacks_is_counted(segments, tmp_path):
    line = b"2026-01-01T00:00:00.000000Z worker-0 %06d " + b"x" * 60 + b"\n"
    attempt = attempt_of("r", log=b"".join(line % number for number in range(20_000)))
    if segments:  # of which a writer has dropped some
        attempt.log.with_name(f"log.tail-{5000:015}-{50:012}").write_bytes(line % 30_000)
    records = opened(tmp_path / "records")
    put(records, attempt)
    [copy] = copied(records, tmp_path, "r")["r"]
    with LogReader(copy.log) as log:
        (_, source, gap), *rest = log.read()
    assert source == GAP
    lines = 20_000 + segments
    assert f"{lines - len(rest)} lines".encode() in gap
    assert rest[-1][2].startswith(b"030000" if segments else b"019999")
    assert sum(file.stat().st_size for file in copy.folder.glob("log*")) <= record_store.LOG_BYTES


@pytest.mark.parametrize("address", ["relative", "https://example.org/x", "mlflow://x"])
def test_what_is_no_address(address):
    with pytest.raises(RecordError, match=r"is not an address of records; allowed: s3://BUCKET/PREFIX"):
        RecordSettings.of(address)


@pytest.mark.parametrize("address", ["", "none", " none "])
def test_nowhere(address):
    assert RecordSettings.of(address) is None


def test_an_address_that_does_not_answer(tmp_path):
    records = opened("s3://runs/a", AWS_ENDPOINT_URL="http://127.0.0.1:9", **s3.VARIABLES)
    with pytest.raises(RecordError, match=r"^s3://runs/a: [^\n]*$"):
        put(records, attempt_of("r"))
    with pytest.raises(RecordError, match=r"^s3://runs/a: [^\n]*$"):
        records.copy(tmp_path / "copy")


def test_a_request_that_comes_too_late_is_not_sent(tmp_path):
    records = opened(tmp_path / "records")
    with pytest.raises(RecordError, match=r"took too long; status\.json and what follows are missing"):
        records.put(attempt_of("r"), time.monotonic() - 1)
