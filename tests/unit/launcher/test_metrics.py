"""Metrics: the last value of the curve that was meant, or a sentence that helps."""

import math

import pytest

from tests.support.event_writer import ScalarWriter
from tfsteps.launcher import event_summary
from tfsteps.tensorboard import event_curves
from tfsteps.tensorboard.event_curves import EventCurves
from tfsteps.tensorboard.event_files import EventOrigin

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


def collect(folder, tags):
    """Return the values, and the notes of all metrics."""
    origin = EventOrigin(attempt=0, before={})
    collected = event_summary.collect_metrics(EventCurves.read(folder, origin), tags, origin)
    return collected.values, [*collected.notes.values()]


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
    assert collect(logdir, {"m": tag}) == ({"m": value}, [])


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
    collected, (missing,) = collect(logdir, {"m": tag})
    assert collected == {}
    assert missing.startswith(sentence)


def test_the_value_written_last_counts_and_has_rewound_the_steps_before(tmp_path):
    with ScalarWriter(tmp_path) as writer:
        for step, wall_time, value in [(5, 10.0, 1.0), (9, 11.0, 2.0), (9, 30.0, 3.0), (7, 20.0, 4.0)]:
            writer.scalar("loss", value, step, wall_time)
    assert collect(tmp_path, {"m": "loss"}) == ({"m": 4.0}, [])


def test_of_the_two_runs_of_keras_a_tag_alone_means_the_training(tmp_path):
    for run, value in (("train", 0.5), ("validation", 0.25)):
        with ScalarWriter(tmp_path / run) as writer:
            writer.scalar("epoch_accuracy", value, 1)
    tags = {"accuracy": "epoch_accuracy", "val_accuracy": "validation/epoch_accuracy"}
    assert collect(tmp_path, tags) == ({"accuracy": 0.5, "val_accuracy": 0.25}, [])


def test_a_folder_without_event_files(tmp_path):
    sentence = "Metric m is not set: no scalar was found in the event files for `loss`."
    assert collect(tmp_path, {"m": "loss"}) == ({}, [sentence])
    assert collect(tmp_path / "none", {}) == ({}, [])


def test_at_most_eight_names(tmp_path):
    with ScalarWriter(tmp_path) as writer:
        for number in range(20):
            writer.scalar(f"tag{number}", 1.0, 1)
    _, (missing,) = collect(tmp_path, {"m": "tag"})
    assert missing.count("`tag") == 9
    assert missing.endswith(" and 12 more.")


def test_long_files_are_read_to_their_end(tmp_path, monkeypatch):
    monkeypatch.setattr(event_curves, "_CHUNK", 500)
    with ScalarWriter(tmp_path) as writer:
        for step in range(200):
            writer.scalar("loss", step, step)
    assert collect(tmp_path, {"m": "loss"}) == ({"m": 199.0}, [])
