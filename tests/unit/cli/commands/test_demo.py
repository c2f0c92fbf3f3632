"""Demos of this machine: they are listed first, and only `rm --demo` removes one."""

import json

import pytest

from tests.unit.cli.command import output_lines, refused, tfsteps
from tests.unit.cli.statuses import saved
from tfsteps.runs import store
from tfsteps.runs.demo import Mark, write
from tfsteps.runs.events import State

PICTURE = "https://example.com/mnist.png"
REFUSAL = "run r1 cannot be removed: it is a demo, and demos are read-only; `tfsteps rm --demo r1` removes it"


@pytest.fixture(autouse=True)
def runs():
    """A demo, and a newer run that is none."""
    write("r1", Mark(PICTURE))
    saved(run="r1", state=State.SUCCEEDED, created=1.0, ended=2.0)
    saved(run="r2", state=State.SUCCEEDED, created=3.0, ended=4.0)


@pytest.mark.parametrize(
    "line", ["rm r1 r2", "rm r1 --dry-run", "clear r1 --yes", "clear r1 --task mnist --yes", "clear r1 --dry-run"]
)
@pytest.mark.parametrize("damaged", [False, True])
def test_no_command_removes_a_demo(line, damaged):
    if damaged:  # it may have been a mark
        (store.run_folder("r1") / "demo.json").write_text("{")
    assert REFUSAL in refused(*line.split())
    assert sorted(store.runs()) == ["r1", "r2"]


@pytest.mark.parametrize("more", [[], ["--demo"], ["--task", "other"]])
def test_a_demo_gets_no_further_attempt(more):
    """It would write into the demo's folders, and be the demo's newest attempt."""
    message = refused("run", "--run-id", "r1", "--name", "mnist", *more, "--", "true")
    assert "run r1 gets no further attempt: it is a demo, and demos are read-only" in message
    assert len(store.attempts("r1")) == 1


def test_prune_keeps_a_demo_and_says_why():
    lines = output_lines("prune", "--older-than", "1d")
    assert any(line.startswith("r1 kept: it is a demo") for line in lines)
    assert lines[-1].startswith("1 run removed, 1 kept")
    assert store.runs() == ["r1"]


def test_rm_removes_a_demo_on_demand():
    assert "r1 would be removed" in output_lines("rm", "--demo", "r1", "--dry-run")[0]
    assert sorted(store.runs()) == ["r1", "r2"]
    output_lines("rm", "--demo", "r1")
    assert store.runs() == ["r2"]


def test_demos_are_listed_before_newer_runs():
    header, *rows = [line.split() for line in output_lines("runs")]
    assert [(row[header.index("RUN")], row[header.index("DEMO")]) for row in rows] == [("r1", "demo"), ("r2", "-")]
    listed = json.loads(tfsteps("runs", "--sort", "task", "--output", "json")[1])
    assert [(item["run"], item["demo"], item["picture"]) for item in listed] == [
        ("r1", True, PICTURE),
        ("r2", False, None),
    ]


def test_without_a_demo_there_is_no_column():
    output_lines("rm", "--demo", "r1")
    assert "DEMO" not in output_lines("runs")[0]


def test_run_marks_its_run_before_the_job_starts_and_not_one_that_never_did(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("name: good\ncommand: ['true']\nroles: {worker: {}}\n")
    assert tfsteps("run", job, "--demo", "--picture", PICTURE, "--run-id", "r3")[0] == 0
    assert "it is a demo" in refused("rm", "r3")
    assert json.loads(tfsteps("runs", "r3", "--output", "json")[1])[0]["picture"] == PICTURE
    assert "--picture" in refused("run", job, "--picture", PICTURE)
    assert "--demo marks runs of this machine" in refused("run", job, "--demo", "--on", "kubernetes")
    job.write_text("name: good\ncommand: [/missing]\nroles: {worker: {}}\n")
    assert tfsteps("run", job, "--demo", "--run-id", "r4")[0] != 0
    assert ("r4" in store.runs()) == bool(store.attempts("r4"))
