"""`tfsteps prune`: old ended runs are removed, and all others are listed with the reason."""

import json
import time

import pytest

from tests.unit.cli.command import refused, said, tfsteps
from tests.unit.cli.statuses import saved
from tfsteps.console.text import iso
from tfsteps.runs import removal, store
from tfsteps.runs.events import State
from tfsteps.spec import format_bytes

DAY = 86400.0
ALLOWED = "Allowed: a duration up to 3650d, such as 12h or 30d"


def ended(run, days, **more):
    end = time.time() - days * DAY
    return saved(run=run, state=State.SUCCEEDED, created=end - 60, ended=end, **more)


@pytest.mark.parametrize("would", ["", " would be"])
def test_each_run_is_a_line_and_the_last_is_the_sum(would, tmp_path):
    ended("old", 40, output=str(tmp_path))
    ended("new", 1)
    _, lock = saved(run="live", hold=True, created=1.0)
    saved(run="left", system="kubeflow", namespace="ml", created=1.0)
    size = format_bytes(removal.extent("old").size)
    options = ["--dry-run"] if would else []
    with lock:
        lines = said("prune", "--older-than", "30d", *options)
    assert lines == [
        "left kept: its launcher was killed, and its job may continue in namespace ml; `tfsteps rm left` removes it",
        "new kept: it ended too recently",
        f"old{would} removed: ended 40d ago, {size}",
        f"  not removed: output {tmp_path}",
        "live kept: its launcher is running; stop it by `tfsteps stop live`",
        f"1 run{would} removed, 3 kept, {size}{would} freed",
    ]
    assert ("old" in store.runs()) is bool(would)
    assert {"new", "live", "left"} <= set(store.runs())


def test_the_newest_are_kept():
    for day in range(4):
        ended(f"d{day}", day)
    lines = said("prune", "--keep", "2")
    assert [line.split()[:2] for line in lines[:4]] == [
        ["d0", "kept:"],
        ["d1", "kept:"],
        ["d2", "removed:"],
        ["d3", "removed:"],
    ]
    assert store.runs() == ["d0", "d1"]


def test_as_json():
    attempt = ended("old", 40, output="s3://b/o")
    ended("new", 0)
    size, at = removal.extent("old").size, attempt.status().ended
    shown = json.loads("".join(said("prune", "--keep", "1", "--output", "json")))
    assert (shown["dry_run"], shown["bytes"], shown["runs"][0]["reason"]) == (False, size, "it is one of the newest 1")
    assert shown["runs"][1] == {
        "run": "old",
        "removed": True,
        "reason": "",
        "ended": iso(at),
        "bytes": size,
        "outputs_left": ["s3://b/o"],
    }


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ((), "--older-than or --keep is needed, such as `tfsteps prune --older-than 30d --keep 20`"),
        (
            ("--older-than", "2 weeks"),
            "--older-than '2 weeks' is not a duration. " + ALLOWED + "; did you mean 14d?",
        ),
        (
            ("--older-than", "-1d"),
            "--older-than '-1d' is not a duration. " + ALLOWED,
        ),
        (
            ("--older-than", "9999d"),
            "--older-than '9999d' is too long. " + ALLOWED,
        ),
    ],
)
def test_bad_options_are_one_error_and_nothing_is_removed(options, error):
    ended("old", 5000)
    assert refused("prune", *options) == f"error: {error}\n"
    assert store.runs() == ["old"]


def test_a_negative_number_is_refused():
    code, _, err = tfsteps("prune", "--keep", "-1")
    assert code == 2
    assert "--keep" in err


def test_a_run_that_cannot_be_read_is_kept_with_one_warning():
    for attempt in range(2):
        (ended("torn", 40, attempt=attempt).folder / "status.json").write_text("{")
    code, out, err = tfsteps("prune", "--keep", "0")
    assert (code, out) == (0, "torn kept: its records cannot be read\n0 runs removed, 1 kept, 0 B freed\n")
    assert err.startswith("warning: run torn is kept: ")
    assert err.count("\n") == 1


def test_a_run_that_cannot_be_removed_is_counted(monkeypatch):
    def fail(_):
        raise PermissionError(13, "Permission denied")

    ended("old", 40)
    monkeypatch.setattr(removal, "_delete", fail)
    code, out, err = tfsteps("prune", "--keep", "0")
    assert (code, out) == (13, "0 runs removed, 0 kept, 1 not removed, 0 B freed\n")
    assert "run old cannot be removed completely" in err


def test_without_runs_nothing_is_removed():
    assert said("prune", "--keep", "0") == ["0 runs removed, 0 kept, 0 B freed"]
