"""Metrics: the last value of the curve that was meant, or a sentence that helps."""

import math

import pytest

from tests.support.event_writer import ScalarWriter
from tfsteps.launcher import metrics
from tfsteps.tensorboard import event_files

CURVES = {
    ("train", "loss"): [(1, 0.5), (2, 0.25)],
    ("eval", "loss"): [(2, 0.75)],
    ("eval", "accuracy"): [(2, 0.875)],
    (".", "global"): [(1, 3.0)],
    ("eval", "global"): [(1, 4.0)],
    (".", "a/b"): [(1, 1.0)],
    ("a", "b"): [(1, 2.0)],
    ("train", "bad"): [(1, 0.5), (2, math.nan)],
}


@pytest.fixture
def logdir(tmp_path):
    for (run, tag), points in CURVES.items():
        with ScalarWriter(tmp_path / run) as writer:
            for step, value in points:
                writer.scalar(tag, value, step)
    return tmp_path


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        ("train/loss", 0.25),
        ("eval/loss", 0.75),
        ("eval/accuracy", 0.875),
        ("accuracy", 0.875),
        ("global", 3.0),
        ("eval/global", 4.0),
        ("b", 2.0),
    ],
)
def test_found(logdir, tag, value):
    assert metrics.collect(logdir, {"m": tag}) == ({"m": value}, [])


@pytest.mark.parametrize(
    ("tag", "sentence"),
    [
        ("loss", "Metric m is not set: `loss` is in 2 runs; write one of `eval/loss`, `train/loss`."),
        ("a/b", "Metric m is not set: `a/b` is a curve in each of the runs `.`, `a`; give one of them another tag."),
        ("bad", "Metric m is not set: the last value of `bad` is nan, at step 2."),
        ("acuracy", "Metric m is not set: there is no `acuracy`, but `eval/accuracy`, "),
        ("test/loss", "Metric m is not set: there is no `test/loss`, but `eval/loss`, `train/loss`, "),
    ],
)
def test_not_found(logdir, tag, sentence):
    found, (missing,) = metrics.collect(logdir, {"m": tag})
    assert found == {}
    assert missing.startswith(sentence)


def test_the_highest_step_wins_then_the_latest(tmp_path):
    with ScalarWriter(tmp_path) as writer:
        for step, wall_time, value in [(5, 10.0, 1.0), (9, 11.0, 2.0), (9, 30.0, 3.0), (7, 31.0, 4.0), (9, 20.0, 5.0)]:
            writer.scalar("loss", value, step, wall_time)
    assert metrics.collect(tmp_path, {"m": "loss"}) == ({"m": 3.0}, [])


def test_a_job_without_event_files(tmp_path):
    sentence = "Metric m is not set: no scalar was found in the event files for `loss`."
    assert metrics.collect(tmp_path, {"m": "loss"}) == ({}, [sentence])
    sentence = f"No value of m: the folder of the event files, {tmp_path / 'none'}, does not exist."
    assert metrics.collect(tmp_path / "none", {"m": "loss"}) == ({}, [sentence])
    assert metrics.collect(tmp_path / "none", {}) == ({}, [])


def test_at_most_eight_names(tmp_path):
    with ScalarWriter(tmp_path) as writer:
        for number in range(20):
            writer.scalar(f"tag{number}", 1.0, 1)
    _, (missing,) = metrics.collect(tmp_path, {"m": "tag"})
    assert missing.count("`tag") == 9
    assert missing.endswith(" and 12 more.")


def test_long_files_are_read_to_their_end(tmp_path, monkeypatch):
    monkeypatch.setattr(event_files, "POLL_BYTES", 500)
    with ScalarWriter(tmp_path) as writer:
        for step in range(200):
            writer.scalar("loss", step, step)
    assert metrics.collect(tmp_path, {"m": "loss"}) == ({"m": 199.0}, [])


def test_event_files_at_a_uri_are_not_reported_as_empty():
    found, missing = metrics.collect("s3://bucket/run/logs", {"loss": "loss", "accuracy": "eval/accuracy"})
    assert found == {}
    assert missing == [
        "No value of loss, accuracy: the event files are at s3://bucket/run/logs, which cannot be read from here."
    ]
