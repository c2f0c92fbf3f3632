"""`tfsteps rm` and `tfsteps prune`: which runs are removed, and which are kept and why."""

import json
import time

import pytest

from tests.unit.cli.command import output_lines, refused, tfsteps
from tests.unit.cli.statuses import saved
from tfsteps.console.text import iso
from tfsteps.runs import removal, store
from tfsteps.runs.events import State
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.spec import format_bytes


def test_each_run_that_is_removed_is_a_line_with_its_size():
    saved(run="r1", state=State.SUCCEEDED)
    saved(run="r1", attempt=1, state=State.SUCCEEDED)
    saved(run="r2", state=State.SUCCEEDED)
    saved(run="r3", state=State.SUCCEEDED)
    sizes = [format_bytes(removal.extent(run).size) for run in ("r1", "r2")]
    assert output_lines("rm", "r1", "r2", "r1", "--dry-run") == [
        f"r1 would be removed: 2 attempts, {sizes[0]}",
        f"r2 would be removed: 1 attempt, {sizes[1]}",
    ]
    assert len(store.runs()) == 3
    assert output_lines("rm", "r1", "r2") == [
        f"r1 removed: 2 attempts, {sizes[0]}",
        f"r2 removed: 1 attempt, {sizes[1]}",
    ]
    assert store.runs() == ["r3"]


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_nothing_is_removed_if_one_of_the_runs_is_running(dry_run):
    saved(run="r1", state=State.SUCCEEDED)
    _, lock = saved(run="r2", hold=True)
    with lock:
        assert refused("rm", "r1", "r2", *dry_run) == (
            "error: run r2 cannot be removed: its launcher is running; stop it by `tfsteps stop r2`; "
            "nothing was removed\n"
        )
    assert sorted(store.runs()) == ["r1", "r2"]


def test_an_unknown_run_names_the_nearest_and_nothing_is_removed():
    saved(run="abc1", state=State.SUCCEEDED)
    assert refused("rm", "abc1", "abd1") == ("error: run 'abd1' is unknown; nearest: abc1; `tfsteps runs` lists all\n")
    assert store.runs() == ["abc1"]


def test_output_outside_of_the_run_folder_stays(tmp_path):
    (tmp_path / "model").mkdir()
    saved(run="r1", state=State.SUCCEEDED, output=str(tmp_path / "model"))
    attempt = saved(run="r1", task="other", state=State.SUCCEEDED)
    saved(run="r1", task="other", state=State.SUCCEEDED, output=str(attempt.output))
    saved(run="r1", task="bucket", state=State.SUCCEEDED, output="s3://bucket/r1")
    for option in ("--dry-run",), ():
        assert output_lines("rm", "r1", *option)[1:] == [
            "  not removed: output s3://bucket/r1",
            f"  not removed: output {tmp_path / 'model'}",
        ]
    assert (tmp_path / "model").exists()


def test_a_damaged_run_and_a_pipeline_without_jobs_can_be_removed():
    (saved(run="torn", state=State.SUCCEEDED).folder / "status.json").write_text("{")
    PipelineRecord(run="none", pipeline="p", state=State.FAILED, created=1.0, ended=2.0).write()
    assert len(output_lines("rm", "torn", "none")) == 2
    assert store.runs() == []


def test_a_job_that_may_continue_elsewhere_is_a_warning():
    saved(run="r1", system="kubeflow", namespace="ml")
    code, out, err = tfsteps("rm", "r1")
    assert (code, out.startswith("r1 removed: 1 attempt")) == (0, True)
    assert err == "warning: run r1: job mnist-abc may continue, as its launcher was killed\n"


def test_the_other_runs_are_removed_if_one_cannot_be(monkeypatch):
    for run in ("r1", "r2"):
        saved(run=run, state=State.SUCCEEDED)
    delete = removal._delete

    def fail_once(folder):
        monkeypatch.setattr(removal, "_delete", delete)
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(removal, "_delete", fail_once)
    code, out, err = tfsteps("rm", "r1", "r2")
    assert (code, out.split(":")[0]) == (13, "r2 removed")
    assert err.startswith("error: run r1 cannot be removed completely: [Errno 13] Permission denied: ")
    assert err.endswith("; fix the cause and retry\n")
    assert err.count("\n") == 1


def test_a_name_is_refused_with_the_id_that_it_means():
    saved(run="r1", state=State.SUCCEEDED)
    saved(run="r2", state=State.SUCCEEDED)
    assert refused("rm", "mnist") == (
        "error: 'mnist' is a name, and what it means may change: write the id, such as r2\n"
    )
    assert refused("rm", "r") == "error: run 'r' is ambiguous: r1, r2; write more of the id\n"
    assert sorted(store.runs()) == ["r1", "r2"]
    assert output_lines("rm", "r2", "--dry-run")[0].startswith("r2 would be removed")


def test_a_job_that_was_left_running_is_a_warning():
    saved(run="r1", system="kubeflow", namespace="ml", detached=True)
    assert tfsteps("rm", "r1")[2] == "warning: run r1: job mnist-abc may continue, as it was left running\n"


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
        lines = output_lines("prune", "--older-than", "30d", *options)
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
    lines = output_lines("prune", "--keep", "2")
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
    shown = json.loads("".join(output_lines("prune", "--keep", "1", "--output", "json")))
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
            ("--older-than", "30"),
            "--older-than '30' has no unit. " + ALLOWED,
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
    assert output_lines("prune", "--keep", "0") == ["0 runs removed, 0 kept, 0 B freed"]
