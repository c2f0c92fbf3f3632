"""`tfsteps rm`: removes the runs that are named, or none."""

import pytest

from tests.unit.cli.command import refused, said, tfsteps
from tests.unit.cli.statuses import saved
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
    assert said("rm", "r1", "r2", "r1", "--dry-run") == [
        f"r1 would be removed: 2 attempts, {sizes[0]}",
        f"r2 would be removed: 1 attempt, {sizes[1]}",
    ]
    assert len(store.runs()) == 3
    assert said("rm", "r1", "r2") == [f"r1 removed: 2 attempts, {sizes[0]}", f"r2 removed: 1 attempt, {sizes[1]}"]
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
        assert said("rm", "r1", *option)[1:] == [
            "  not removed: output s3://bucket/r1",
            f"  not removed: output {tmp_path / 'model'}",
        ]
    assert (tmp_path / "model").exists()


def test_a_damaged_run_and_a_pipeline_without_jobs_can_be_removed():
    (saved(run="torn", state=State.SUCCEEDED).folder / "status.json").write_text("{")
    PipelineRecord(run="none", pipeline="p", state=State.FAILED, created=1.0, ended=2.0).write()
    assert len(said("rm", "torn", "none")) == 2
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
    assert said("rm", "r2", "--dry-run")[0].startswith("r2 would be removed")


def test_a_job_that_was_left_running_is_a_warning():
    saved(run="r1", system="kubeflow", namespace="ml", detached=True)
    assert tfsteps("rm", "r1")[2] == "warning: run r1: job mnist-abc may continue, as it was left running\n"
