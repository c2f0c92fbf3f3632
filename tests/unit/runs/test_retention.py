"""Which ended runs are kept."""

import time

import pytest

from tests.unit.cli.statuses import saved, status
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.removal import RunRecords, decide, read_records

NOW = time.time()
DAY = 86400.0


def records(run, days, **more):
    ended = NOW - days * DAY
    return RunRecords(run, [status(run=run, state=State.SUCCEEDED, created=ended - 60, ended=ended)], **more)


def removed(runs, **limits):
    decisions = decide(runs, NOW, **{"older_than": None, "keep": None, **limits})
    return [decision.records.run for decision in decisions if not decision.kept]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"older_than": 5 * DAY}, ["d6", "d9"]),
        ({"keep": 1}, ["d4", "d6", "d9"]),
        ({"keep": 0}, ["d1", "d4", "d6", "d9"]),
        ({"older_than": 5 * DAY, "keep": 3}, ["d9"]),
        ({"older_than": 5 * DAY, "keep": 9}, []),
        ({"older_than": 0.0}, ["d1", "d4", "d6", "d9"]),
    ],
)
def test_runs_are_removed_by_age_and_number(limits, expected):
    assert removed([records(f"d{days}", days) for days in (4, 9, 1, 6)], **limits) == expected


def test_a_run_that_ended_in_the_future_is_kept_as_the_newest():
    decisions = decide([records("old", 1), records("future", -1)], NOW, None, 0)
    assert [(d.records.run, "future" in d.kept) for d in decisions] == [("future", True), ("old", False)]
    assert removed([records("old", 1), records("future", -1)], keep=1) == ["old"]


def test_runs_that_have_not_ended_are_kept_and_do_not_count_as_newest():
    runs = [
        records("running", 9, in_use="its launcher is running"),
        records("torn", 9, problem="torn"),
        records("a", 8),
    ]
    assert removed(runs, keep=0) == ["a"]
    assert removed(runs, keep=1) == []


@pytest.mark.parametrize(("system", "expected"), [("local", ["r1"]), ("hai", []), ("kubeflow", [])])
def test_a_job_that_may_continue_elsewhere_keeps_its_run(system, expected):
    saved(run="r1", system=system, namespace="ml", created=1.0)
    decisions = decide([read_records("r1")], time.time(), None, 0)  # it ended when its status was written, just now
    assert [decision.records.run for decision in decisions if not decision.kept] == expected


def test_the_last_attempt_of_a_run_or_its_pipeline_decides_its_age():
    saved(run="r1", attempt=0, state=State.FAILED, created=10.0, ended=20.0)
    saved(run="r1", attempt=1, state=State.SUCCEEDED, created=30.0, ended=40.0)
    assert read_records("r1").ended == 40.0
    PipelineRecord(run="r1", pipeline="p", state=State.SUCCEEDED, created=1.0, ended=50.0).write()
    assert read_records("r1").ended == 50.0


def test_records_that_do_not_show_an_end_are_a_problem():
    attempt = saved(run="torn", state=State.SUCCEEDED)
    saved(run="torn", task="other", state=State.SUCCEEDED)
    (attempt.folder / "status.json").write_text("{")
    (store.run_folder("empty") / "task").mkdir(parents=True)
    assert "status.json cannot be read" in read_records("torn").problem
    assert "has no status" in read_records("empty").problem
    assert removed([read_records("torn"), read_records("empty")], keep=0) == []
