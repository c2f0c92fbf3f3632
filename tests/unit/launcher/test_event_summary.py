"""What event files come to, also where a pod has to read them: printed, understood, and kept for the report."""

import builtins
import json
import math
import os
import pathlib
import socket
import subprocess
import sys
import time

import msgspec
import pytest

from tests.support.event_writer import ScalarWriter
from tests.support.finished import attempt_of
from tests.unit.report.test_html import Reader
from tfsteps import report, spec
from tfsteps.launcher import event_summary
from tfsteps.launcher.earlier_files import EarlierFiles, origin_of
from tfsteps.launcher.event_summary import EventSummary
from tfsteps.report import curves
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.location import Location
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder, make_private
from tfsteps.steps.job_step import JobOutput
from tfsteps.systems.base import LaunchError
from tfsteps.tensorboard.event_curves import EventCurves
from tfsteps.tensorboard.event_files import EventOrigin

FIELDS = {"name": "one", "command": ["true"], "roles": {"worker": {}}}
LOSS = {"loss": "train/loss"}
UNSEEN = "/unseen/logs"
ANY = EventOrigin(attempt=0, earlier=True)


def job(metrics=LOSS, **more):
    return spec.from_plain({**FIELDS, "outputs": {"metrics": metrics}, **more})


def set_outputs(status, training_job, handle=None, before=None):
    """Do what a launcher does with a job that has ended; a folder that it sees was empty before."""
    handle = handle or Elsewhere(None)
    before = before or EarlierFiles({} if pathlib.Path(status.logs).is_dir() else None)
    origin = origin_of(status, training_job, handle, before)
    event_summary.set_outputs(status, training_job, handle, origin, before)


def test_recorded_metrics_count_without_names_and_outside_of_pipelines(tmp_path, monkeypatch):
    """Only of the files that tfsteps wrote, of the first model, and as long as all of them was read."""
    for run, value in (("train", 0.5), ("validation", 0.25), ("model-2/train", 9.0)):
        (tmp_path / run).mkdir(parents=True)
        with ScalarWriter(tmp_path / run) as writer:
            writer.scalar("epoch_loss", value, 3)
        (file,) = (tmp_path / run).iterdir()
        file.rename(f"{file}.tfsteps")

    _, status = ended(tmp_path)

    def metrics(**changes):
        status.identity = msgspec.structs.replace(status.identity, **changes)
        set_outputs(status, job({}))
        return status.metrics

    assert metrics(pipeline="") == {"loss": 0.5, "val_loss": 0.25}
    assert metrics(pipeline="nightly") == {}
    monkeypatch.setattr(curves, "READ_BYTES", 200)
    assert metrics(pipeline="") == {}
    monkeypatch.undo()
    (file,) = (tmp_path / "train").iterdir()
    file.rename(str(file).removesuffix(".tfsteps"))
    assert metrics(pipeline="") == {"val_loss": 0.25}


class Elsewhere:
    """A job whose event files are in another place than its status says: there its programs are run."""

    uid, created, is_new = "u1", 0.0, True
    hosts = socket.gethostname()

    def __init__(self, folder, *, trouble=None, printed=None):
        self.folder, self.trouble, self.printed = folder, trouble, printed
        self.ran = []

    def read_folder(self, folder, program):
        self.ran.append(program)
        if self.trouble:
            raise self.trouble
        if self.printed is not None or self.folder is None:
            return self.printed
        argv = [sys.executable, *(str(self.folder) if word == folder else word for word in program)]
        return json.loads(subprocess.run(argv, capture_output=True, check=True, text=True).stdout)


@pytest.fixture
def logdir(tmp_path):
    with ScalarWriter(tmp_path / "logs" / "train") as writer:
        for step, value in enumerate((0.5, 0.25)):
            writer.scalar("loss", value, step)
        writer.scalar("rate", math.nan, 1)
    return tmp_path / "logs"


def ended(logs):
    attempt, status = attempt_of(json.dumps(FIELDS), State.SUCCEEDED)
    status.location, status.logs, status.warnings = Location.KUBERNETES, str(logs), []
    attempt.write(status)
    return attempt, status


def shown(attempt):
    return Reader(report.write(attempt).read_text(encoding="utf-8")).text


def test_what_is_read_elsewhere_is_what_would_be_read_here(logdir):
    attempt, status = ended(UNSEEN)
    tags = {**LOSS, "rate": "rate", "none": "train/none"}
    elsewhere = Elsewhere(logdir)
    set_outputs(status, job(tags), elsewhere)
    here = msgspec.structs.replace(status, logs=str(logdir), metrics={}, warnings=[])
    set_outputs(here, job(tags))
    assert (status.metrics, status.warnings) == (here.metrics, here.warnings)
    assert status.metrics == {"loss": 0.25}
    kept = curves.saved(attempt.curves)
    assert json.dumps(kept, default=str) == json.dumps(
        curves.gather(EventCurves.read(logdir), tuple(tags.values())), default=str
    )
    assert "1 value not finite" in shown(attempt)
    assert len(elsewhere.ran) == 1


def test_no_pod_for_what_this_launcher_sees(logdir):
    _, status = ended(logdir)
    elsewhere = Elsewhere(logdir)
    set_outputs(status, job(), elsewhere)
    assert (status.metrics, elsewhere.ran) == ({"loss": 0.25}, [])


def test_nothing_is_run_for_what_is_lost_with_the_pods():
    _, status = ended("")
    elsewhere = Elsewhere(None)
    set_outputs(status, job(), elsewhere)
    assert elsewhere.ran == []
    lost = "No value of loss: the event files are lost with the replicas: set `output_dir`."
    assert (status.warnings, status.metric_notes) == ([lost], {"loss": lost})


@pytest.mark.parametrize(
    ("elsewhere", "why"),
    [
        (Elsewhere(None, trouble=LaunchError("pods is forbidden", retryable=False)), "pods is forbidden"),
        (Elsewhere(None, printed={"metrics": 1}), "Expected `object`, got `int`"),
        (Elsewhere(None, printed=[]), "Expected `object`, got `array`"),
    ],
)
def test_unreadable_files_are_not_reported_as_empty(elsewhere, why):
    attempt, status = ended(UNSEEN)
    set_outputs(status, job({**LOSS, "accuracy": "accuracy"}), elsewhere)
    (warning,) = status.warnings
    assert warning.startswith(f"No value of loss, accuracy: the event files at {UNSEEN} could not be read: {why}")
    assert status.metric_notes == {"loss": warning, "accuracy": warning}
    assert f"the event files at {UNSEEN} could not be read: {why}" in shown(attempt)
    assert "contain no scalars" not in shown(attempt)


def test_a_job_with_a_tensorboard_has_curves_without_metrics(logdir):
    attempt, status = ended(UNSEEN)
    set_outputs(status, job({}, tensorboard={}), Elsewhere(logdir))
    assert (status.metrics, status.warnings) == ({}, [])
    assert "train" in shown(attempt)
    set_outputs(status, job({}, tensorboard={}), Elsewhere(None, trouble=LaunchError("no", retryable=False)))
    assert status.warnings == [f"The report has no curves: the event files at {UNSEEN} could not be read: no."]


def test_a_volume_without_the_folder_has_no_event_files():
    _, status = ended(UNSEEN)
    set_outputs(status, job(), Elsewhere(None))
    assert status.warnings == [f"No value of loss: the folder of the event files, {UNSEEN}, does not exist."]


@pytest.mark.parametrize("narrow", ["train", "train/*"])
def test_files_without_read_permission_are_not_reported_as_empty(narrow, logdir, monkeypatch):
    """As root, who runs tests in containers, nothing is refused: so the two calls that would be are."""
    (path,) = map(str, logdir.glob(narrow))

    def refusing(call):
        def call_or_refuse(target, *args, **kwargs):
            if os.fspath(target) == path:
                raise PermissionError(13, "Permission denied", path)
            return call(target, *args, **kwargs)

        return call_or_refuse

    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    monkeypatch.setattr(builtins, "open", refusing(open))
    attempt, status = ended(logdir)
    set_outputs(status, job())
    (warning,) = status.warnings
    none = "Metric loss is not set: no scalar was found in the event files for `train/loss`"
    unread = f"{none}; train/{pathlib.Path(path).name} could not be read: Permission denied."
    assert warning in (f"No value of loss: this user may not read {path}.", unread)
    text = shown(attempt)
    assert "this user may not read" in text or "could not be read: Permission denied" in text
    assert "contain no scalars" not in text


def test_an_output_that_a_node_would_cut_goes_without_its_curves(logdir, monkeypatch):
    monkeypatch.setattr(event_summary, "_LONGEST", 300)
    summary = EventSummary.of(str(logdir), LOSS, ANY)
    plain = json.loads(summary.printed())
    assert plain["metrics"] == {"loss": 0.25}
    assert plain["charts"] == {"charts": [], "more": [], "cut": True, "trouble": [], "left_out": 0}


def test_the_longest_curves_fit_into_the_output(tmp_path):
    with ScalarWriter(tmp_path) as writer:
        for tag in range(3):
            for step in range(10_000):
                writer.scalar(f"tag{tag}", step / 7, step)
    assert len(EventSummary.of(str(tmp_path), {}, ANY).printed()) < 500_000


@pytest.mark.parametrize("raw", [b"", b"[", b'{"charts": 1}', b"\xff", b"[" * 100_000])
def test_curves_that_are_garbled_are_read_again(raw, logdir):
    attempt, _ = ended(logdir)
    attempt.curves.write_bytes(raw)
    assert curves.saved(attempt.curves) is None
    assert "loss" in shown(attempt)
    assert curves.saved(pathlib.Path("/nowhere")) is None


# --- the model


class Here:
    """A job whose replicas are processes of this machine."""

    uid, hosts, created, is_new = "u1", "", 0.0, True

    def read_folder(self, folder, program):
        raise AssertionError("it is here")


def attempted(folder, changes, *, location=Location.LOCAL, handle=None, attempt=1, **fields):
    """Return the status of an attempt whose program does `changes` with the folder of the model."""
    identity = Identity(run="r", task="one", attempt=attempt)
    status = Status(identity=identity, job="one", system="local", state=State.SUCCEEDED, location=location)
    make_private(AttemptFolder.of(identity).folder)
    status.logs, status.model = str(folder / "logs"), str(folder / "model")
    training_job = job({}, outputs=fields)
    handle = handle or Here()
    before = EarlierFiles.of(status, training_job).of_job(handle)
    changes()
    handle.uid = f"u{attempt}"
    origin = origin_of(status, training_job, handle, before)
    AttemptFolder.of(identity).write_event_origin(origin)
    event_summary.set_outputs(status, training_job, handle, origin, before)
    return status


def exported(folder):
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "saved_model.pb").write_bytes(b"same bytes")


def test_a_model_that_was_there_before_the_attempt_is_not_its_output(tmp_path):
    assert attempted(tmp_path, lambda: exported(tmp_path), attempt=0).model
    stale = attempted(tmp_path, lambda: None)
    assert stale.model == ""
    (warning,) = stale.warnings
    assert warning.startswith("There is no output `model`: attempt 1 wrote none")
    assert attempted(tmp_path, lambda: exported(tmp_path)).model, "the same bytes, written again"
    assert attempted(tmp_path, lambda: None, earlier_attempts=True).model


def test_what_an_adopted_job_wrote_before_its_new_launcher_began_is_its_output(tmp_path):
    """Its records were lost with the launcher's pod."""
    exported(tmp_path)
    with ScalarWriter(tmp_path / "logs" / "train") as writer:
        writer.scalar("loss", 0.25, 1)
    adopted = Here()
    adopted.is_new, adopted.hosts = False, socket.gethostname()
    status = attempted(tmp_path, lambda: None, attempt=0, handle=adopted, metrics=LOSS)
    assert (bool(status.model), status.metrics, status.warnings) == (True, {"loss": 0.25}, [])
    (AttemptFolder.of(status.identity).folder / "event-origin.json").unlink()
    adopted.created = time.time() + 60  # the clock of a node is slow
    slow = attempted(tmp_path, lambda: None, attempt=0, handle=adopted, metrics=LOSS)
    assert slow.model
    assert "or a node's clock is slow" in slow.metric_notes["loss"]
    assert "existed before" not in slow.metric_notes["loss"]


def test_without_the_folder_the_model_is_judged_by_its_time_or_not_at_all(tmp_path):
    """A pod that reads the claim says when the newest file was changed."""

    def elsewhere(written):
        summary = EventSummary(metrics={}, notes={}, charts=curves.Charts(), model_written=written)
        handle = Elsewhere(None, printed=json.loads(summary.printed()))
        handle.created = 1000.0
        return attempted(
            pathlib.Path("/unseen"), lambda: None, location=Location.KUBERNETES, handle=handle, metrics=LOSS
        )

    slow = elsewhere(900.0)
    assert slow.model == "/unseen/model"
    times = "it was last changed at 1970-01-01T00:15:00+00:00, and the job was created at 1970-01-01T00:16:40+00:00"
    assert slow.warnings == [
        f"Whether attempt 1 wrote the model at /unseen/model is not known: {times}, by different clocks."
    ]
    assert elsewhere(990.0).warnings == [], "clocks may differ"
    assert elsewhere(1100.0).warnings == []
    unknown = elsewhere(None)
    assert unknown.model == "/unseen/model"
    assert unknown.warnings == ["Whether attempt 1 wrote the model at /unseen/model is not known."]


def test_event_files_of_another_run_with_the_same_folder_do_not_count(tmp_path):
    def write(value):
        with ScalarWriter(tmp_path / "logs" / "train") as writer:
            writer.scalar("loss", value, 1)

    write(0.5)
    first = attempted(tmp_path, lambda: None, attempt=0, metrics=LOSS)
    assert first.metrics == {}
    assert "existed before attempt 0" in first.metric_notes["loss"]
    assert attempted(tmp_path, lambda: write(0.25), metrics=LOSS).metrics == {"loss": 0.25}
    third = attempted(tmp_path, lambda: None, attempt=2, metrics=LOSS, earlier_attempts=True)
    assert third.metrics == {"loss": 0.25}
    assert "attempt 1 wrote it" in third.metric_notes["loss"]


def test_an_earlier_launcher_of_the_job_knows_what_was_there_before(tmp_path):
    """A launcher that adopts the job sees the files of its replicas: they are no files from before the start."""
    (tmp_path / "logs").mkdir()
    _, status = attempt_of(json.dumps(FIELDS), State.SUCCEEDED)
    status.logs = str(tmp_path / "logs")
    first = origin_of(status, job(), Here(), EarlierFiles.of(status, job()))
    AttemptFolder.of(status.identity).write_event_origin(first)
    with ScalarWriter(tmp_path / "logs"):
        assert origin_of(status, job(), Here(), EarlierFiles.of(status, job())) == first
        made_again = Here()
        made_again.uid = "u2"
        again = origin_of(status, job(), made_again, EarlierFiles.of(status, job()))
        assert len(again.before) == 1


def test_damage_is_a_warning_of_the_step_and_stands_in_the_report(tmp_path):
    def write():
        with ScalarWriter(tmp_path / "logs" / "train") as writer:
            writer.scalar("loss", 0.5, 1)
            writer.raw(bytes(64))

    status = attempted(tmp_path, write, attempt=0, metrics={"half": "train/loss"})
    assert status.metrics == {"half": 0.5}
    (warning,) = status.warnings
    assert warning == status.metric_notes["half"]
    assert "is damaged at byte" in warning
    attempt = AttemptFolder.of(status.identity)
    attempt.write(status)
    text = shown(attempt)
    assert text.count("is damaged at byte") >= 2, "in the warnings and below the curves"
    summary = JobOutput.of(status).plain()
    assert summary["metric_notes"] == status.metric_notes
