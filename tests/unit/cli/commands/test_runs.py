"""`tfsteps runs` and `tfsteps show`: for people, and for programs."""

import json
import re
import time
import types

import pytest

from tests.unit.cli.command import said, tfsteps
from tests.unit.cli.statuses import FAILURE, saved, status
from tfsteps.cli.backends import local
from tfsteps.console.text import iso
from tfsteps.runs.events import State
from tfsteps.runs.store import Attempt

LONG = "a-name-" * 30


def test_runs_are_listed_newest_first_with_their_attempts():
    now = time.time()
    saved(run="old", state=State.SUCCEEDED, created=now - 7200, ended=now - 7200 + 75)
    saved(run="new", attempt=0, state=State.FAILED, created=now - 600, ended=now - 590)
    _, lock = saved(run="new", attempt=1, created=now - 300, hold=True)
    with lock:
        rows = [line.split() for line in said("runs")]
    assert rows[0] == ["RUN", "TASK", "ATTEMPT", "STATE", "SYSTEM", "AGE", "DURATION"]
    assert [(row[0], row[2], row[3]) for row in rows[1:]] == [
        ("new", "1", "running"),
        ("new", "0", "failed"),
        ("old", "0", "succeeded"),
    ]
    assert (rows[2][6], rows[3][6]) == ("10s", "1m15s")
    assert rows[1][6].startswith("5m")


def test_a_run_whose_launcher_was_killed_is_lost_and_its_clock_stands_still():
    saved(created=time.time() - 300)
    assert re.fullmatch(r"lost 5m\d*s?", " ".join(said("runs")[1].split()[3::3]))


def test_runs_as_json():
    saved(state=State.SUCCEEDED, created=1_795_000_000.25)
    (run,) = json.loads("".join(said("runs", "--output", "json")))
    assert (run["run"], run["task"], run["attempt"], run["state"]) == ("r1", "mnist", 0, "succeeded")
    assert run["created"] == iso(1_795_000_000.25)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.250[+-]\d\d:\d\d", run["created"])


def test_that_there_are_no_runs_is_printed_on_standard_error(home):
    assert tfsteps("runs") == (0, "", f"There are no runs in {home}; `tfsteps init` writes a first job.\n")
    assert said("runs", "--output", "json") == ["[]"]


def test_names_of_200_characters_stay_whole_where_no_terminal_is():
    saved(run=LONG, task=LONG, state=State.SUCCEEDED)
    assert said("runs")[1].split()[:3] == [LONG, LONG, "0"]
    assert said("show", LONG)[0].split()[1] == LONG


def test_show_prints_why_a_job_failed():
    saved(state=State.FAILED, failure=FAILURE, metrics={"loss": 0.25}, warnings=["image is not used"])
    lines = said("show", "latest")
    assert lines[-1] == f"mnist failed after 1m01s: {FAILURE.summary}"
    for expected in (
        "warning      image is not used",
        "metrics      loss 0.25",
        "  | one",
        "  | two",
        "failed first worker-1",
        "exit code    1: the program raised an error",
        "exception    ValueError: no data",
        "at           train.py:7 in main",
        "retry        retrying will not help: fix the program or the job file first",
    ):
        assert expected in lines


def test_show_has_a_row_for_each_replica():
    saved(workers=3, state=State.SUCCEEDED)
    lines = said("show", "latest")
    start = next(at for at, line in enumerate(lines) if line.startswith("REPLICA"))
    assert lines[start].split() == ["REPLICA", "STATE", "RESTARTS", "EXIT", "PLACE", "ELAPSED", "CPU", "MEMORY"]
    assert [line.split()[:4] for line in lines[start + 1 : start + 4]] == [
        [f"worker-{i}", "succeeded", "0", "0"] for i in range(3)
    ]


def test_show_as_json_has_the_whole_status():
    attempt = saved(state=State.FAILED, failure=FAILURE, metrics={"ended": 1e300})
    (shown,) = json.loads("".join(said("show", "latest", "--output", "json")))["attempts"]
    written = attempt.status()
    assert shown["folder"] == str(attempt.folder)
    assert shown["ended"] == iso(written.ended)
    assert shown["metrics"] == {"ended": 1e300}, "a metric is no time, whatever its name"
    assert shown["failure"]["tail"] == FAILURE.tail
    assert shown["replicas"][1]["incarnations"][0]["started"] == iso(written.replicas[1].incarnations[0].started)


def test_escape_sequences_of_a_job_do_not_reach_the_terminal():
    saved(state=State.FAILED, failure=FAILURE, message="\x1b[2Jgone", task="a\x1b[1;1Hb")
    for command in (("show", "latest"), ("runs",)):
        assert "\x1b" not in "".join(said(*command))


def test_follow_ends_with_the_job(monkeypatch):
    made, lock = saved(hold=True)

    def end(_seconds):
        made.write(status(state=State.SUCCEEDED))
        lock.close()

    monkeypatch.setattr(local, "time", types.SimpleNamespace(sleep=end))  # it ends while it is waited for
    lines = said("show", "latest", "--follow")
    assert lines[:2] == ["mnist: running", "mnist: succeeded"]
    assert lines[-1] == "mnist succeeded after 1m01s."


@pytest.mark.parametrize("command", [("show", "latest", "--follow"), ("logs", "latest", "--follow")])
def test_follow_continues_with_tasks_that_start_meanwhile(command, monkeypatch):
    first, lock = saved(task="first", hold=True)
    locks = [lock]

    def start_and_end(_seconds):
        if len(locks) == 1:
            locks.append(saved(("worker-0", b"a line"), task="later", hold=True)[1])
            first.write(status(task="first", state=State.SUCCEEDED))
        else:
            Attempt(first.folder.parents[1] / "later" / "0").write(status(task="later", state=State.SUCCEEDED))
            locks[1].close()
        locks[0].close()

    monkeypatch.setattr(local, "time", types.SimpleNamespace(sleep=start_and_end))
    assert [line for line in said(*command) if re.search("later succeeded|a line", line)]


@pytest.mark.parametrize("command", [("show", "latest", "--follow"), ("logs", "latest", "--follow")])
def test_follow_warns_of_a_status_that_cannot_be_read_once(command, monkeypatch):
    (saved(task="bad").folder / "status.json").write_text("{")
    attempt, lock = saved(task="good", hold=True)
    polls = []

    def end_at_the_third_poll(_seconds):
        polls.append(1)
        if len(polls) == 3:
            attempt.write(status(task="good", state=State.SUCCEEDED))
            lock.close()

    monkeypatch.setattr(local, "time", types.SimpleNamespace(sleep=end_at_the_third_poll))
    code, _, err = tfsteps(*command)
    assert (code, err.count("cannot be read"), len(polls)) == (0, 1, 3)


def test_follow_of_an_ended_job_ends_at_once():
    saved(state=State.CANCELLED)
    assert said("show", "latest", "--follow")[0] == "mnist: cancelled"


@pytest.mark.parametrize("filled", [True, False])
def test_paths_of_what_is_not_there_are_left_out(tmp_path, filled):
    model = tmp_path / "model"
    model.mkdir()
    if filled:
        (model / "saved_model.pb").touch()
    attempt = saved(state=State.SUCCEEDED, model=str(model))
    lines = said("show", "latest")
    assert (f"model        {model}" in lines) is filled
    assert not any(line.startswith("report") for line in lines)
    Attempt(attempt.folder).report.touch()
    assert f"report       {attempt.report}" in said("show", "latest")
