"""TFSTEPS_USAGE_INTERVAL: durations, and values that are refused before anything is created."""

import pathlib

import pytest

from tfsteps import spec
from tfsteps.launcher.lifecycle import launch
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.usage_interval import usage_interval

ALLOWED = "allowed: 0 for no samples, or a duration from 1s to 1h, such as 5s or 1m"


@pytest.mark.parametrize(("text", "seconds"), [("", 7.0), ("0", 0), ("2s", 2), (" 1m ", 60), ("90", 90), ("1h", 3600)])
def test_durations(monkeypatch, text, seconds):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", text)
    assert usage_interval(7.0) == (seconds, "")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("often", "is not a duration"), ("-1", "is not a duration"), ("0.5s", "is too small"), ("2h", "is too large")],
)
def test_other_values_are_one_problem(monkeypatch, text, wrong):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", text)
    assert usage_interval(7.0) == (7.0, f"TFSTEPS_USAGE_INTERVAL='{text}' {wrong}; {ALLOWED}")


def test_a_launcher_refuses_a_wrong_interval_before_it_creates_anything(monkeypatch, home):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "often")
    job = spec.from_plain({"name": "j", "command": ["true"], "roles": {"worker": {}}})
    with pytest.raises(LaunchError, match="is not a duration") as refusal:
        launch(job, Identity(run="r", task="t"), registry.get("local"), base_dir=pathlib.Path("/tmp"))
    assert not refusal.value.retryable
    assert not home.exists()
