"""TFSTEPS_LOG_LIMIT: sizes, and values that are refused before anything is created."""

import pathlib

import pytest

from tfsteps import spec
from tfsteps.launcher.lifecycle import launch
from tfsteps.launcher.log_writer import DEFAULT, log_limit
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError

ALLOWED = "allowed: 0 for no limit, or a size from 16Mi to 1024Ti, such as 200Mi or 4Gi"


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", DEFAULT),
        ("0", 0),
        ("200Mi", 200 << 20),
        ("200MiB", 200 << 20),
        ("200MB", 200_000_000),
        (" 4G ", 4_000_000_000),
        ("16777216", 16 << 20),
        ("1.5Gi", 3 << 29),
    ],
)
def test_sizes(monkeypatch, text, limit):
    monkeypatch.setenv("TFSTEPS_LOG_LIMIT", text)
    assert log_limit() == (limit, "")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("much", "is not a size"), ("-1", "is not a size"), ("15Mi", "is too small"), ("2000Ti", "is too large")],
)
def test_other_values_are_one_problem(monkeypatch, text, wrong):
    monkeypatch.setenv("TFSTEPS_LOG_LIMIT", text)
    assert log_limit() == (DEFAULT, f"TFSTEPS_LOG_LIMIT='{text}' {wrong}; {ALLOWED}")


def run(script):
    job = spec.from_plain({"name": "j", "command": ["sh", "-c", script], "roles": {"worker": {}}})
    return launch(job, Identity(run="r", task="t"), registry.get("local"), base_dir=pathlib.Path("/tmp"))


def test_a_launcher_refuses_a_wrong_limit_before_it_creates_anything(monkeypatch, home):
    monkeypatch.setenv("TFSTEPS_LOG_LIMIT", "much")
    with pytest.raises(LaunchError, match="TFSTEPS_LOG_LIMIT='much' is not a size") as refusal:
        run("true")
    assert not refusal.value.retryable
    assert not home.exists()


def test_a_launcher_drops_lines_beyond_the_limit(monkeypatch):
    monkeypatch.setenv("TFSTEPS_LOG_LIMIT", "16Mi")
    status = run("yes 'a long line of some output of a program that repeats itself' | head -n 400000; echo end")
    attempt = AttemptFolder.of(status.identity)
    assert sum(file.stat().st_size for file in attempt.folder.glob("log*")) <= 16 << 20
    (warning,) = [warning for warning in status.warnings if "dropped" in warning]
    assert "limit of 16.0 MiB" in warning
    assert "dropped from the middle of the log" in attempt.report.read_text()
