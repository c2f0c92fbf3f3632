"""What the shell completes, in the terms of zsh, which shows explanations, and of bash, which does not."""

import os
import subprocess
import time

import pytest

from tests.unit.cli.command import COMMAND
from tests.unit.cli.statuses import saved
from tfsteps.cli import completion
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.pipeline_record import PipelineRecord


def completed(*words, shell="bash"):
    """Return what a shell offers for the last of the words."""
    line = " ".join(["tfsteps", *words])
    asked = {"_TFSTEPS_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    asked["_TYPER_COMPLETE_ARGS"] = line
    done = subprocess.run([COMMAND], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout if shell == "zsh" else done.stdout.split()


def aged(attempt, age):
    os.utime(attempt.folder.parents[1], (1000 - age, 1000 - age))


@pytest.fixture
def runs():
    """Three runs, the newest first: one runs, one failed, one is a pipeline without a job."""
    hour = time.time() - 3600
    job = "bert-aaaaaaaaaa"
    attempt, lock = saved(run="fit-k1", task="fit", job=job, workers=3, created=time.time() - 120, hold=True)
    identity = Identity(run="k2", task="score", pipeline="nightly")
    aged(attempt, 0)
    aged(saved(run="k2", task="score", identity=identity, job=job, state=State.FAILED, created=hour), 1)
    PipelineRecord(run="k3", pipeline="weekly", state=State.CANCELLED, created=hour, ended=hour + 9).write()
    os.utime(store.run_folder("k3"), (998, 998))
    with lock:
        yield


def test_commands_are_offered_with_their_summaries():
    assert '"run":"Run a job to its end' in completed("ru", shell="zsh")
    assert completed("ru") == ["run", "runs"]


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("command", [["run"], ["run", "job.yaml"], ["shell", "latest"]])
def test_nothing_of_the_command_after_dashes_is_offered(command):
    assert "--task" in completed(*command, "--")
    assert completed(*command, "--", "python", "-") == completed(*command, "--", "python", "") == []


@pytest.mark.usefixtures("runs")
def test_runs_are_offered_newest_first_then_their_names():
    offers = ["fit-k1", "k2", "k3", "latest", "bert", "fit", "nightly", "score", "weekly"]
    assert completed("show", "") == offers
    assert completed("logs", "fit") == ["fit-k1", "fit"]
    assert completed("rm", "fit-") == ["fit-k1"]
    assert completed("shell", "zz") == []


@pytest.mark.usefixtures("runs")
def test_offers_are_explained():
    offers = dict(completion.complete_run(""))
    assert offers["fit-k1"].startswith("running, 2m")
    assert (offers["k2"], offers["k3"]) == ("failed, 1h ago", "cancelled, 1h ago")
    assert (offers["bert"], offers["score"]) == ("job; newest run fit-k1", "task; newest run k2")
    assert (offers["nightly"], offers["weekly"]) == ("pipeline; newest run k2", "pipeline; newest run k3")
    assert '"k2":"failed, 1h ago"' in completed("show", "k", shell="zsh")


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("run", ["fit-k1", "fit", "latest", "fit-", "bert"])
def test_replicas_of_the_run_are_offered_with_their_states(run):
    assert completed("logs", run, "wo") == ["worker-0", "worker-1", "worker-2", "worker"]
    assert completed("logs", run, "worker-1", "worker-") == ["worker-0", "worker-2"]
    assert completed("shell", run, "") == ["worker-0", "worker-1", "worker-2"]
    assert '"worker-0":"running"' in completed("logs", run, "worker-0", shell="zsh")


@pytest.mark.usefixtures("runs")
def test_tasks_of_the_run_are_offered():
    saved(run="fit-k1", task="eval", state=State.SUCCEEDED)
    assert completed("logs", "fit-k1", "--task", "") == ["eval", "fit"]
    assert completed("logs", "fit-k1", "--task", "f") == ["fit"]


def test_damaged_records_and_a_run_whose_launcher_was_killed():
    bad = saved(run="bad", state=State.FAILED)
    (bad.folder / "status.json").write_text("{")
    saved(run="gone", state=State.RUNNING)
    assert dict(completion.complete_run(""))["gone"].startswith("lost, ")
    assert dict(completion.complete_run("b")) == {"bad": ""}
    assert completed("logs", "bad", "") == []


def test_a_home_that_cannot_be_read_offers_nothing(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "file"))
    assert completed("show", "x") == []
    assert completed("logs", "x", "") == []
    monkeypatch.setattr(store, "runs", lambda: 1 / 0)
    assert completion.complete_run("") == []


def test_of_many_runs_few_records_are_read(monkeypatch):
    for number in range(130):
        aged(saved(run=f"r{number:03}", state=State.SUCCEEDED), number)
    read = []
    monkeypatch.setattr(completion, "_status_summary", read.append)
    offers = completion.complete_run("r")
    assert [run for run, _ in offers] == [f"r{number:03}" for number in range(130)]
    assert len(read) == 100
