"""Run folders: read by others while they are written."""

import io
import subprocess
import sys

import pytest

from tests.support.waiting import until
from tfsteps import records
from tfsteps.identity import Identity
from tfsteps.records import Attempt, Status
from tfsteps.systems.base import State

ME = Identity(run="r", task="t")


def new(identity=ME, state=State.RUNNING):
    attempt = Attempt.of(identity)
    lock = attempt.claim()
    attempt.write(Status(identity=identity, job="j", system="local", state=state))
    return attempt, lock


def test_a_status_comes_back_as_it_was_written():
    attempt, lock = new()
    with lock:
        assert attempt.status() == Status(identity=ME, job="j", system="local", state=State.RUNNING)


def test_a_launcher_that_died_is_lost_and_an_ended_one_is_not():
    attempt, lock = new()
    lock.close()
    assert (attempt.status().state, attempt.status().reason) == (State.LOST, "LauncherDied")
    attempt, lock = new(Identity(run="r", task="done"), State.SUCCEEDED)
    lock.close()
    assert attempt.status().state is State.SUCCEEDED


def test_two_launchers_cannot_hold_one_attempt():
    attempt, lock = new()
    with lock, pytest.raises(BlockingIOError):
        attempt.claim()
    attempt.claim().close()


def test_the_lock_ends_with_its_process():
    code = (
        "from tfsteps.records import *; from tfsteps.identity import Identity; import time\n"
        "lock = Attempt.of(Identity(run='r', task='t')).claim(); print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        assert Attempt.of(ME).alive()
        other.kill()
        other.wait()
    until(lambda: not Attempt.of(ME).alive())


@pytest.mark.parametrize("name", ["a", "a b", "a/b", "..", ".", ".hidden", "ä" * 30, "x" * 150, "a\nb", "%2F"])
def test_any_run_and_task_name_is_one_folder(name):
    identity = Identity(run=name, task=name)
    attempt, lock = new(identity)
    lock.close()
    assert attempt.folder.relative_to(records.home() / "runs").parts[2] == "0"
    assert records.runs() == [name]
    assert [each.folder for each in records.attempts(name)] == [attempt.folder]


def test_attempts_are_numbered_and_sorted_by_number():
    for number in (0, 9, 10):
        new(Identity(run="r", task="t", attempt=number))[1].close()
    assert [each.folder.name for each in records.attempts("r")] == ["0", "9", "10"]
    assert records.next_attempt("r", "t") == 11
    assert records.next_attempt("r", "other") == 0


def test_log_lines_come_back_and_an_unfinished_one_waits():
    data = records.log_line(0.25, "worker-1", b"\xff one  two ") + records.log_line(1, "chief-0", b"")
    file = io.BytesIO(data + b"1970-01-01T00:00:02.000000Z worker-1 hal")
    assert list(records.read_log(file)) == [
        ("1970-01-01T00:00:00.250000Z", "worker-1", b"\xff one  two "),
        ("1970-01-01T00:00:01.000000Z", "chief-0", b""),
    ]
    file.seek(0, 2)
    file.write(b"f\n")
    file.seek(len(data))
    assert [text for _, _, text in records.read_log(file)] == [b"half"]


def test_names_longer_than_a_file_name_may_be():
    identity = Identity(run="r" * 300, task="t" * 300)
    new(identity)[1].close()
    assert [each.folder for each in records.attempts("r" * 300)] == [Attempt.of(identity).folder]
