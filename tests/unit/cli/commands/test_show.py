"""`tfsteps show`: for people, and for programs."""

import json
import os
import re
import time
import types

import pytest

from tests.unit.cli.command import output_lines, refused, tfsteps
from tests.unit.cli.statuses import FAILURE, saved, status
from tfsteps.backends.local import backend as local
from tfsteps.console.text import iso
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.store import AttemptFolder, pipeline_folder


def test_show_prints_why_a_job_failed():
    saved(state=State.FAILED, failure=FAILURE, metrics={"loss": 0.25}, warnings=["image is not used"])
    lines = output_lines("show", "latest")
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
    lines = output_lines("show", "latest")
    start = next(at for at, line in enumerate(lines) if line.startswith("REPLICA"))
    assert lines[start].split() == ["REPLICA", "STATE", "RESTARTS", "EXIT", "PLACE", "ELAPSED", "CPU", "MEMORY"]
    assert [line.split()[:4] for line in lines[start + 1 : start + 4]] == [
        [f"worker-{i}", "succeeded", "0", "0"] for i in range(3)
    ]


def test_show_as_json_has_the_whole_status():
    attempt = saved(state=State.FAILED, failure=FAILURE, metrics={"ended": 1e300})
    (shown,) = json.loads("".join(output_lines("show", "latest", "--output", "json")))["attempts"]
    written = attempt.status()
    assert shown["folder"] == str(attempt.folder)
    assert shown["ended"] == iso(written.ended)
    assert shown["metrics"] == {"ended": 1e300}, "a metric is no time, whatever its name"
    assert shown["failure"]["tail"] == FAILURE.tail
    assert shown["replicas"][1]["incarnations"][0]["started"] == iso(written.replicas[1].incarnations[0].started)


def test_escape_sequences_of_a_job_do_not_reach_the_terminal():
    saved(state=State.FAILED, failure=FAILURE, message="\x1b[2Jgone", task="a\x1b[1;1Hb")
    for command in (("show", "latest"), ("runs",)):
        assert "\x1b" not in "".join(output_lines(*command))
    assert "a\\x1b[1;1Hb" in refused("logs", "latest", "--task", "another")


def test_follow_ends_with_the_job(monkeypatch):
    attempt, lock = saved(hold=True, system="local")

    def end(_seconds):
        attempt.write(status(state=State.SUCCEEDED, system="local"))
        lock.close()

    monkeypatch.setattr(
        local, "time", types.SimpleNamespace(sleep=end, time=time.time)
    )  # it ends while it is waited for
    lines = output_lines("show", "latest", "--follow")
    assert lines[:2] == ["mnist: running", "run          r1"], "the last line is the end, once"
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
            AttemptFolder(first.folder.parents[1] / "later" / "0").write(status(task="later", state=State.SUCCEEDED))
            locks[1].close()
        locks[0].close()

    monkeypatch.setattr(local, "time", types.SimpleNamespace(sleep=start_and_end, time=time.time))
    assert [line for line in output_lines(*command) if re.search("later succeeded|a line", line)]


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

    monkeypatch.setattr(local, "time", types.SimpleNamespace(sleep=end_at_the_third_poll, time=time.time))
    code, _, err = tfsteps(*command)
    assert (code, err.count("cannot be read"), len(polls)) == (0, 1, 3)


@pytest.mark.parametrize("with_job", [False, True])
def test_follow_of_a_pipeline_ends_with_the_pipeline(with_job, monkeypatch):
    """Also while a step runs that launches no job."""
    record = PipelineRecord(run="r1", pipeline="nightly", state=State.RUNNING, created=10)
    record.write()
    process = AttemptFolder(pipeline_folder("r1"))
    process.folder.mkdir(parents=True, exist_ok=True)
    lock = process.claim()
    if with_job:
        saved(state=State.SUCCEEDED)
    polls = []

    def end_at_the_third_poll(_seconds):
        polls.append(1)
        if len(polls) == 3:
            record.state, record.ended = State.FAILED, 75
            record.message = "step check failed with exit code 1"
            record.write()
            lock.close()

    monkeypatch.setattr(local, "time", types.SimpleNamespace(sleep=end_at_the_third_poll, time=time.time))
    assert (
        output_lines("show", "r1", "--follow")[-1] == "nightly failed after 1m05s: step check failed with exit code 1"
    )
    assert len(polls) == 3


def test_follow_of_an_ended_job_ends_at_once():
    saved(state=State.CANCELLED)
    assert output_lines("show", "latest", "--follow")[0] == "run          r1"


@pytest.mark.parametrize("filled", [True, False])
def test_paths_of_what_is_not_there_are_left_out(tmp_path, filled):
    model = tmp_path / "model"
    model.mkdir()
    if filled:
        (model / "saved_model.pb").touch()
    attempt = saved(state=State.SUCCEEDED, model=str(model))
    lines = output_lines("show", "latest")
    assert (f"model        {model}" in lines) is filled
    assert not any(line.startswith("report") for line in lines)
    AttemptFolder(attempt.folder).report.touch()
    assert f"report       {attempt.report}" in output_lines("show", "latest")


def test_the_tree_comes_first():
    attempt = saved(state=State.FAILED, failure=FAILURE)
    lines = output_lines("show", "latest")
    assert lines[:6] == [
        "run          r1",
        f"└─ task mnist, attempt 0: failed, 1m01s ({FAILURE.summary})",
        "   ├─ job mnist-abc: failed, 1m01s, on elsewhere",
        "   │  ├─ worker-0: failed, 59s (exit code 1)",
        "   │  └─ worker-1: failed, 59s (exit code 1)",
        f"   └─ log: {attempt.log}",
    ]
    assert lines[6:8] == ["", "task         mnist, attempt 0"]


def test_json_has_the_whole_graph_with_all_attempts():
    saved(attempt=0, state=State.FAILED)
    saved(attempt=1, state=State.SUCCEEDED)
    data = json.loads("".join(output_lines("show", "latest", "--output", "json")))
    assert [attempt["identity"]["attempt"] for attempt in data["attempts"]] == [1]
    (task,) = data["graph"]["children"]
    assert [(attempt["name"], attempt["state"]) for attempt in task["children"]] == [
        ("0", "failed"),
        ("1", "succeeded"),
    ]
    assert re.fullmatch(r"\d{4}-.*T.*[+-]\d\d:\d\d", task["started"])
    assert data["notes"] == []


def test_a_selected_task_has_no_other_in_its_tree():
    saved(task="first", state=State.SUCCEEDED)
    saved(task="later", state=State.SUCCEEDED)
    lines = output_lines("show", "r1", "--task", "later")
    assert [line for line in lines if " task " in line] == ["└─ task later, attempt 0: succeeded, 1m01s"]


def test_the_launcher_of_this_machine_is_in_the_tree_while_it_runs_and_once_it_was_killed():
    me = f"launcher pid {os.getpid()}"
    _, lock = saved(hold=True, launcher=os.getpid())
    with lock:
        assert [line for line in output_lines("show", "r1") if f"├─ {me}: running, " in line]
    (line,) = [line for line in output_lines("show", "r1") if "launcher pid" in line]
    assert line.startswith(f"   ├─ {me}: gone, ")
    assert line.endswith("(it was killed)")


def test_a_pipeline_of_this_machine_is_above_its_tasks():
    saved(identity=Identity(run="r1", task="train", pipeline="nightly"), task="train", state=State.SUCCEEDED)
    assert output_lines("show", "r1")[1:3] == ["└─ pipeline nightly", "   └─ task train, attempt 0: succeeded, 1m01s"]
    PipelineRecord(run="r1", pipeline="nightly", state=State.FAILED, message="no", created=10, ended=75).write()
    assert output_lines("show", "r1")[1] == "└─ pipeline nightly: failed, 1m05s (no)"


def test_the_graph_of_a_pipeline_without_jobs():
    PipelineRecord(run="r5", pipeline="nightly", state=State.FAILED, message="no", created=10, ended=75).write()
    data = json.loads("".join(output_lines("show", "r5", "--output", "json")))
    assert [child["name"] for child in data["graph"]["children"]] == ["nightly"]
