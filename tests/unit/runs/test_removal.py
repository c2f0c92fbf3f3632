"""Removal of runs: all of a run or nothing, and nothing else."""

import fcntl
import os
import shutil
import tempfile

import pytest

from tests.unit.cli.statuses import saved
from tfsteps.runs import removal, store
from tfsteps.runs.events import State
from tfsteps.runs.pipeline_record import PipelineRecord

NOBODY = 65534


def ended(run, **more):
    return saved(("worker-0", b"a line"), run=run, state=State.SUCCEEDED, **more)


def test_all_of_a_run_is_removed_and_nothing_of_another(home):
    for run in ("a", "b"):
        ended(run, task="x")
        ended(run, task="y", attempt=1)
        PipelineRecord(run=run, pipeline="p", state=State.SUCCEEDED, created=1.0, ended=2.0).write()
        with store.locked(store.pipeline_folder(run)):
            pass
    removal.remove("a")
    assert store.runs() == ["b"]
    assert sorted(path.name for folder in ("runs", "pipelines") for path in (home / folder).iterdir()) == ["b", "b"]
    assert len(store.attempts("b")) == 2


def test_the_size_is_that_of_the_files_each_counted_once(tmp_path):
    attempt = ended("a")
    attempt.output.mkdir()
    (attempt.output / "model").write_bytes(bytes(1000))
    before = removal.extent("a")
    os.link(attempt.output / "model", attempt.output / "same")
    (tmp_path / "large").write_bytes(bytes(5000))
    (attempt.output / "link").symlink_to(tmp_path / "large")
    assert removal.extent("a") == before
    assert before.attempts == 1
    assert before.size == sum(p.stat().st_size for p in store.run_folder("a").rglob("*") if p.name in NAMES)


NAMES = {"model", "log", "status.json", "reserve", "lock"}


@pytest.mark.parametrize("inside", [True, False])
def test_symbolic_links_are_not_followed(tmp_path, inside):
    attempt = ended("a")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "kept").write_text("kept")
    if inside:
        attempt.output.symlink_to(tmp_path / "data")
    else:  # the run folder itself
        shutil.move(store.run_folder("a"), tmp_path / "data" / "a")
        store.run_folder("a").symlink_to(tmp_path / "data" / "a")
        assert removal.extent("a").size == 0
    removal.remove("a")
    assert store.runs() == []
    assert list((store.home() / "runs").iterdir()) == []
    assert (tmp_path / "data" / "kept").read_text() == "kept"
    assert (tmp_path / "data" / "a").exists() is not inside


def test_a_run_with_a_running_launcher_is_not_removed():
    ended("a", task="x")
    _, lock = saved(run="a", task="y", hold=True)
    with lock, pytest.raises(removal.InUseError, match="stop it by `tfsteps stop a`"):
        removal.remove("a")
    assert len(store.attempts("a")) == 2
    removal.remove("a")
    assert store.runs() == []


def test_a_launcher_without_a_status_counts():
    folder = store.run_folder("a") / "x" / "0"
    with store.AttemptFolder(folder).claim(), pytest.raises(removal.InUseError):
        removal.remove("a")
    assert folder.exists()


def test_a_run_whose_pipeline_runs_is_not_removed():
    ended("a")
    with store.locked(store.pipeline_folder("a")), pytest.raises(removal.InUseError, match="Ctrl-C"):
        removal.remove("a")
    assert store.runs() == ["a"]


def test_a_launcher_that_starts_during_the_removal_keeps_its_folder(monkeypatch):
    attempt, lock = saved(run="a", hold=True)
    checks = iter([lambda *_: None, removal._check])

    def check(*args):  # the launcher starts after the first one
        next(checks)(*args)

    monkeypatch.setattr(removal, "_check", check)
    with lock, pytest.raises(removal.InUseError):
        removal.remove("a")
    assert attempt.alive().no
    assert store.runs() == ["a"]
    assert (attempt.folder / "status.json").exists()


def interrupt(_folder):
    raise KeyboardInterrupt


def test_an_interrupted_removal_leaves_no_run_and_is_completed_later(home, monkeypatch):
    ended("a")
    ended("b")
    with monkeypatch.context() as interrupted:
        interrupted.setattr(removal, "_delete", interrupt)
        with pytest.raises(KeyboardInterrupt):
            removal.remove("a")
    assert store.runs() == ["b"]
    assert len(list((home / "runs").iterdir())) == 2
    removal.remove("b")
    assert list((home / "runs").iterdir()) == []


def test_any_name_stays_in_the_state_folder(home, tmp_path):
    (tmp_path / "kept").mkdir()
    for run in ("..", "../kept", ".removed-x", "a/b"):
        ended(run)
        assert removal.extent(run).attempts == 1
        removal.remove(run)
        assert store.runs() == []
    assert (tmp_path / "kept").exists()


@pytest.fixture
def unprivileged(monkeypatch):
    """Another user's permissions, if the tests run as root; a state folder that this user owns."""
    folder = tempfile.mkdtemp()
    monkeypatch.setenv("TFSTEPS_HOME", folder)
    root = os.geteuid() == 0
    if root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield
    if root:
        os.seteuid(0)
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o700)  # noqa: PTH101
    shutil.rmtree(folder)


@pytest.mark.usefixtures("unprivileged")
def test_what_cannot_be_deleted_is_an_error_that_names_it_and_the_rest_is_deleted():
    attempt = ended("a")
    attempt.output.mkdir()
    (attempt.output / "model").write_text("x")
    attempt.output.chmod(0o500)
    with pytest.raises(PermissionError, match="/output/model'"):
        removal.remove("a")
    assert store.runs() == []
    (left,) = (store.home() / "runs").iterdir()
    assert [path.name for path in left.rglob("*") if path.is_file()] == ["model"]


def test_a_pipeline_folder_that_is_locked_is_alive():
    folder = store.pipeline_folder("a")
    with store.locked(folder):
        assert store.AttemptFolder(folder).alive().yes
        with (folder / "lock").open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert store.AttemptFolder(folder).alive().no


def test_one_task_goes_and_nothing_of_another():
    for task in ("train", "train-2"):
        saved(run="a", task=task, state=State.SUCCEEDED)
        saved(run="b", task=task, state=State.SUCCEEDED)
    assert removal.extent("a", "train").attempts == 1
    removal.remove("a", "train")
    assert [attempt.folder.parent.name for attempt in store.attempts("a")] == ["train-2"]
    assert len(store.attempts("b")) == 2
    assert sorted(store.runs()) == ["a", "b"]


def test_the_last_task_goes_with_its_run():
    saved(run="a", task="train", state=State.SUCCEEDED)
    store.run_report("a").write_text("report")
    removal.remove("a", "train")
    assert not store.run_folder("a").exists()


def test_a_task_beside_one_that_has_no_status_yet_goes_alone():
    saved(run="a", task="train", state=State.SUCCEEDED)
    other = store.task_folder("a", "other") / "0"
    other.mkdir(parents=True)
    removal.remove("a", "train")
    assert other.exists()
    assert not store.task_folder("a", "train").exists()


def test_a_running_task_or_pipeline_is_not_removed():
    _, lock = saved(run="a", task="train", hold=True)
    saved(run="a", task="other", state=State.SUCCEEDED)
    with lock, pytest.raises(removal.InUseError, match="stop it by `tfsteps stop a`"):
        removal.remove("a", "train")
    with store.locked(store.pipeline_folder("a")), pytest.raises(removal.InUseError, match="Ctrl-C"):
        removal.remove("a", "other")
    assert len(store.attempts("a")) == 2
