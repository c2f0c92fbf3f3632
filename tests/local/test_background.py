"""Jobs whose launcher stays behind."""

import os
import signal

import pytest

from tests.support.waiting import until
from tfsteps import spec
from tfsteps.launcher import background
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import AttemptFolder, attempts
from tfsteps.spec import SpecError
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.local.job_system import LocalSystem

JOB = {"name": "asleep", "command": ["sleep", "600"], "roles": {"worker": {}}}


def start(folder, attempt=0, **fields):
    job = spec.from_plain({**JOB, **fields}, "test", registry.options())
    return background.start(job, Identity(run="r", task="t", attempt=attempt), registry.get("local"), base_dir=folder)


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    for attempt in attempts("r"):
        launcher = attempt.status().launcher
        if attempt.alive().yes:
            os.kill(launcher, signal.SIGTERM)
            until(lambda attempt=attempt: attempt.alive().no)
        os.waitpid(launcher, 0)  # it is our child here, for there is no step between us


def test_launched_again_it_is_the_same_job(tmp_path):
    first = start(tmp_path)
    assert (first.state, first.uid != "", first.launcher != os.getpid()) == ("pending", True, True)
    assert start(tmp_path, attempt=1).uid == first.uid
    other = start(tmp_path, attempt=1, args=["1"])
    assert other.uid != first.uid, "another job"


def test_a_launch_that_cannot_work_is_refused_at_once(tmp_path, monkeypatch):
    with pytest.raises(SpecError, match="command"):
        start(tmp_path, command=[])
    home = tmp_path / "a-file"
    home.write_text("")
    monkeypatch.setenv("TFSTEPS_HOME", str(home))
    with pytest.raises(LaunchError, match=r"the run folder cannot be used: .*; set TFSTEPS_HOME"):
        start(tmp_path)


def test_a_job_is_checked_once(tmp_path, monkeypatch):
    def problems(*_):
        with (tmp_path / "checks").open("a") as file:  # of two processes
            file.write("checked\n")
        return []

    monkeypatch.setattr(LocalSystem, "spec_problems", problems)
    start(tmp_path)
    assert (tmp_path / "checks").read_text() == "checked\n"


def test_no_records_here():
    with pytest.raises(LaunchError, match="wait on the machine where it was launched"):
        background.follow(AttemptFolder.of(Identity(run="elsewhere", task="t")))


def test_a_launcher_that_was_killed(tmp_path):
    status = start(tmp_path)
    os.kill(status.launcher, signal.SIGKILL)
    assert background.follow(AttemptFolder.of(status.identity)).state == "lost"


@pytest.mark.parametrize("report", [b"", b'{"type": "_Begun", "status": {"ident'], ids=["nothing", "cut"])
def test_a_launcher_that_ends_before_it_has_reported_is_one_clear_error(report, tmp_path, monkeypatch):
    def end(_run, teller):
        os.write(teller._pipe, report)
        os._exit(1)

    monkeypatch.setattr(background, "_stay", end)
    with pytest.raises(LaunchError, match="ended before it reported") as caught:
        start(tmp_path)
    assert caught.value.retryable
    os.wait()
