"""What event files come to, also where a pod has to read them: printed, understood, and kept for the report."""

import builtins
import json
import math
import os
import pathlib
import subprocess
import sys

import msgspec
import pytest

from tests.support.event_writer import ScalarWriter
from tests.support.finished import attempt_of
from tests.unit.report.test_html import Reader
from tfsteps import report, spec
from tfsteps.launcher import event_summary
from tfsteps.launcher.event_summary import EventSummary, set_metrics
from tfsteps.report import curves
from tfsteps.runs.events import State
from tfsteps.systems.base import LaunchError

FIELDS = {"name": "one", "command": ["true"], "roles": {"worker": {}}}
LOSS = {"loss": "train/loss"}
UNSEEN = "/unseen/logs"


def job(metrics=LOSS, **more):
    return spec.from_plain({**FIELDS, "outputs": {"metrics": metrics}, **more})


class Elsewhere:
    """A job whose event files are in another place than its status says: there its programs are run."""

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
    status.logs, status.warnings = str(logs), []
    attempt.write(status)
    return attempt, status


def shown(attempt):
    return Reader(report.write(attempt).read_text(encoding="utf-8")).text


def test_what_is_read_elsewhere_is_what_would_be_read_here(logdir):
    attempt, status = ended(UNSEEN)
    wanted = {**LOSS, "rate": "rate", "none": "train/none"}
    elsewhere = Elsewhere(logdir)
    set_metrics(status, job(wanted), elsewhere)
    here = msgspec.structs.replace(status, logs=str(logdir), metrics={}, warnings=[])
    set_metrics(here, job(wanted), None)
    assert (status.metrics, status.warnings) == (here.metrics, here.warnings)
    assert status.metrics == {"loss": 0.25}
    kept = curves.saved(attempt.curves)
    assert json.dumps(kept, default=str) == json.dumps(curves.gather(logdir, tuple(wanted.values())), default=str)
    assert "1 value not finite" in shown(attempt)
    assert len(elsewhere.ran) == 1


def test_no_pod_for_what_this_launcher_sees(logdir):
    _, status = ended(logdir)
    elsewhere = Elsewhere(logdir)
    set_metrics(status, job(), elsewhere)
    assert (status.metrics, elsewhere.ran) == ({"loss": 0.25}, [])


@pytest.mark.parametrize("logs", ["", "gs://bucket/logs"])
def test_nothing_is_run_for_what_no_pod_could_read(logs):
    _, status = ended(logs)
    elsewhere = Elsewhere(None)
    set_metrics(status, job(), elsewhere)
    assert elsewhere.ran == []
    assert len(status.warnings) == 1


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
    set_metrics(status, job({**LOSS, "accuracy": "accuracy"}), elsewhere)
    (warning,) = status.warnings
    assert warning.startswith(f"No value of loss, accuracy: the event files at {UNSEEN} could not be read: {why}")
    assert "could not be read when this report was written" in shown(attempt)
    assert "contain no scalars" not in shown(attempt)


def test_a_job_with_a_tensorboard_has_curves_without_metrics(logdir):
    attempt, status = ended(UNSEEN)
    set_metrics(status, job({}), Elsewhere(logdir))
    assert (status.metrics, status.warnings) == ({}, [])
    assert "train" in shown(attempt)
    set_metrics(status, job({}), Elsewhere(None, trouble=LaunchError("no", retryable=False)))
    assert status.warnings == [f"The report has no curves: the event files at {UNSEEN} could not be read: no."]


def test_a_volume_without_the_folder_has_no_event_files():
    _, status = ended(UNSEEN)
    set_metrics(status, job(), Elsewhere(None))
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
    set_metrics(status, job(), None)
    assert status.warnings == [f"No value of loss: this user may not read {path}."]
    text = shown(attempt)
    assert f"The launcher's user may not read {path}." in text
    assert "contain no scalars" not in text


def test_an_output_that_a_node_would_cut_goes_without_its_curves(logdir, monkeypatch):
    monkeypatch.setattr(event_summary, "_LONGEST", 300)
    summary = EventSummary.of(str(logdir), LOSS)
    plain = json.loads(summary.printed())
    assert plain["metrics"] == {"loss": 0.25}
    assert plain["charts"] == {"charts": [], "more": [], "cut": True, "denied": ""}


def test_the_longest_curves_fit_into_the_output(tmp_path):
    with ScalarWriter(tmp_path) as writer:
        for tag in range(3):
            for step in range(10_000):
                writer.scalar(f"tag{tag}", step / 7, step)
    assert len(EventSummary.of(str(tmp_path), {}).printed()) < 500_000


@pytest.mark.parametrize("raw", [b"", b"[", b'{"charts": 1}', b"\xff", b"[" * 100_000])
def test_curves_that_are_garbled_are_read_again(raw, logdir):
    attempt, _ = ended(logdir)
    attempt.curves.write_bytes(raw)
    assert curves.saved(attempt.curves) is None
    assert "loss" in shown(attempt)
    assert curves.saved(pathlib.Path("/nowhere")) is None
