"""Runs that cannot be read, or have no status: the others are shown, and what is not known is said."""

import collections
import contextlib
import json
import os
import shutil
import tempfile
import time

import pytest

from tests.unit.cli.command import output_lines, tfsteps
from tests.unit.cli.statuses import saved
from tfsteps.backends.local.backend import LocalBackend
from tfsteps.console.errors import CommandError
from tfsteps.runs import removal, store
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import AttemptFolder

NOBODY = 65534
COMMANDS = (
    ("runs",),
    ("show", "mine"),
    ("stop", "mine"),
    ("rm", "mine", "--dry-run"),
    ("prune", "--keep", "9"),
    ("tune", "mnist"),
)
DENIED = "cannot be read: permission denied"


@pytest.fixture
def theirs(monkeypatch):
    """The folder of the run `theirs`, which the user of the commands may not read, beside a run `mine`."""
    home = tempfile.mkdtemp()  # pytest's folders are closed for the other user
    monkeypatch.setenv("TFSTEPS_HOME", home)
    saved(run="theirs", state=State.SUCCEEDED)
    saved(run="mine", state=State.SUCCEEDED)
    for command in COMMANDS:  # imports now what the other user may not read
        tfsteps(*command)
    folder = store.run_folder("theirs")
    root = os.geteuid() == 0
    for path, _, _ in os.walk(home):
        if root:
            os.chown(path, NOBODY, NOBODY)
    for file in store.run_folder("mine").rglob("*"):
        if root:
            os.chown(file, NOBODY, NOBODY)
    at = store.run_folder("mine").stat().st_mtime
    os.utime(folder, (at - 9, at - 9))
    folder.chmod(0)
    if root:
        os.seteuid(NOBODY)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o700)
    shutil.rmtree(home)


def make_newest(folder):
    os.utime(folder)


def test_the_other_runs_are_listed(theirs):
    code, out, err = tfsteps("runs")
    assert (code, "mine" in out) == (0, True)
    assert err.count(f"{theirs} {DENIED}") == 1
    shutil.rmtree(store.run_folder("mine"))
    assert "except 1 that cannot be read" in tfsteps("runs")[2]


def test_latest_is_the_newest_run_unless_that_cannot_be_read(theirs):
    code, out, _ = tfsteps("show", "latest")
    assert (code, "mine" in out) == (0, True)
    make_newest(theirs)
    for command in ("show", "stop", "rm"):
        code, out, err = tfsteps(command, "latest")
        assert (code, out) == (13, ""), command
        assert f"{theirs} {DENIED}" in err, command
    assert "latest is run theirs" in tfsteps("show", "latest")[2]
    assert "such as mine" in tfsteps("show", "latest")[2]


def test_a_name_is_looked_for_among_the_others_and_the_doubt_is_said(theirs):
    code, out, err = tfsteps("show", "mnist")
    assert (code, "mine" in out) == (0, True)
    assert f"{theirs} {DENIED}; it may be a newer run that is called 'mnist'" in err
    assert tfsteps("show", "mine")[2] == ""
    assert f"error: run theirs: {theirs} {DENIED}" in tfsteps("show", "theirs")[2]


def test_tune_counts_the_others(theirs):
    _, out, err = tfsteps("tune", "mnist")
    assert "mnist: 0 good runs of" in out
    assert f"{theirs} {DENIED}" in err


@pytest.mark.parametrize("option", [(), ("--demo",)], ids=str)
def test_nothing_is_removed_of_a_run_that_cannot_be_read(theirs, option):
    code, out, err = tfsteps("rm", "mine", "theirs", *option)
    assert (code, out) == (13, "")
    assert DENIED in err
    assert "nothing was removed" in err
    with pytest.raises(PermissionError):
        removal.remove("theirs", demos=True)
    code, out, err = tfsteps("clear", "theirs", "--yes", *(["--dry-run"] if option else []))
    assert (code, out) == (13, "")
    assert err == f"error: {theirs}/demo.json {DENIED}; nothing was removed; remove it as its owner\n"
    assert {*os.listdir(theirs.parent)} == {"mine", "theirs"}  # noqa: PTH208


def test_prune_does_not_call_it_a_demo(theirs):
    code, out, err = tfsteps("prune", "--keep", "0")
    assert code == 0
    assert "theirs kept: its records cannot be read" in out
    assert "it is a demo" not in out + err
    assert DENIED in err
    assert theirs.exists()


def test_a_run_without_a_status_is_said_to_have_none():
    AttemptFolder.of(Identity(run="full", task="mnist", attempt=0)).claim().close()
    folder = store.run_folder("full")
    why = f"{folder} has no status: its launcher ended before it could write one, as on a full disk"
    code, _, err = tfsteps("runs")
    assert (code, why in err) == (0, True)
    assert "`tfsteps rm full` removes it" in err
    assert "except 1 that cannot be read" in err
    code, out, err = tfsteps("show", "latest")
    assert (code, out, why in err) == (13, "", True)
    output_lines("rm", "full")
    assert store.runs() == []


def test_a_run_whose_launcher_has_not_written_a_status_yet_is_not_called_ended():
    with AttemptFolder.of(Identity(run="new", task="mnist", attempt=0)).claim():
        assert "has no status yet: its launcher is running" in tfsteps("show", "new")[2]


def test_times_of_a_clock_that_jumped_are_not_known():
    now = time.time()
    saved(run="back", state=State.SUCCEEDED, created=now - 10, ended=now - 900)
    saved(run="ahead", state=State.SUCCEEDED, created=now + 9e6, ended=now + 9e6 + 5)
    saved(run="never", state=State.SUCCEEDED, created=1e13, ended=1e13 + 5)
    assert output_lines("show", "back")[-1] == "mnist succeeded, its duration is not known."
    assert any("in the future: the clock of this machine" in line for line in output_lines("show", "ahead"))
    assert any(line.startswith("created      not known (in the future") for line in output_lines("show", "never"))
    listed = {item["run"]: item for item in json.loads("\n".join(output_lines("runs", "--output", "json")))}
    assert (listed["back"]["duration"], listed["never"]["created"]) == (None, None)
    assert sum("not known" in line for line in output_lines("runs")) == 2


def test_a_run_of_the_future_is_not_called_the_newest():
    saved(run="now", state=State.SUCCEEDED)
    saved(run="ahead", state=State.SUCCEEDED, created=time.time() + 9e6, ended=None)
    os.utime(store.run_folder("ahead"), (0, time.time() + 9e6))
    for command in ("show", "stop", "logs", "rm"):
        code, out, err = tfsteps(command, "latest")
        assert (code, out) == (13, ""), command
        assert "latest is run ahead, and the time of run ahead, 20" in err
        assert "is in the future: check the clock" in err
        assert err.endswith("; write the id of another run, such as now\n")
    code, out, err = tfsteps("show", "mnist")
    assert (code, out) == (2, "")
    assert "which run is the newest that is called 'mnist' is not known: the time of run ahead" in err
    assert "run          ahead" in output_lines("show", "ahead")
    assert "run          ahead" in output_lines("show", "ahe"), "the beginning of one id"
    shutil.rmtree(store.run_folder("now"))
    assert tfsteps("show", "latest")[2].endswith("; fix the cause and retry\n")


def test_the_clocks_of_two_machines_may_differ_a_little():
    saved(run="now", state=State.SUCCEEDED, created=time.time() + 30)
    os.utime(store.run_folder("now"), (0, time.time() + 30))
    assert "run          now" in output_lines("show", "latest")
    assert "run          now" in output_lines("show", "mnist")


@pytest.mark.parametrize("name", ["latest", "mnist", "r1"])
def test_a_name_is_looked_for_by_reading_each_run_once(monkeypatch, name):
    for i in range(20):
        saved(run=f"r{i:02}", state=State.SUCCEEDED)
    read, attempts = [], store.attempts

    def counted(run, task=None):
        read.append(run)
        return attempts(run, task)

    monkeypatch.setattr(store, "attempts", counted)
    with contextlib.suppress(CommandError):  # r1 begins several ids
        LocalBackend().resolve(name)
    counts = collections.Counter(read)
    counts.pop(name, None)  # whether that is an id
    assert sorted(counts.values()) == ([1] if name == "latest" else [1] * 20)


def test_tune_does_not_count_runs_of_the_future():
    saved(run="ahead", state=State.SUCCEEDED, created=time.time() + 9e6, ended=None)
    saved(run="now", state=State.SUCCEEDED)
    _, out, err = tfsteps("tune", "mnist")
    assert "mnist: 0 good runs of 0" in out, "only counted with the job"
    assert "not counted: ahead: created in the future, " in err
