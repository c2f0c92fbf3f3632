"""What a user may type for a run, a task, an attempt; and what is said when it is not there."""

import os
import subprocess

import pytest

from tests.unit.cli.command import COMMAND, output_lines, refused, tfsteps
from tests.unit.cli.statuses import saved
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.store import AttemptFolder


@pytest.fixture
def three_runs():
    """Three ended runs; the times of their folders are their order."""
    for age, run in enumerate(("abcd", "abxy", "mnist-2026")):
        attempt = saved(run=run, state=State.SUCCEEDED)
        os.utime(attempt.folder.parents[1], (1000 + age, 1000 + age))


@pytest.mark.usefixtures("three_runs")
@pytest.mark.parametrize(
    ("typed", "run_id"), [("abcd", "abcd"), ("abc", "abcd"), ("m", "mnist-2026"), ("latest", "mnist-2026")]
)
def test_a_run_is_found(typed, run_id):
    assert output_lines("show", typed)[0].split() == ["run", run_id]


@pytest.mark.usefixtures("three_runs")
@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("ab", "run 'ab' is ambiguous: abcd, abxy; write more of the id"),
        ("mnits-2026", "run 'mnits-2026' is unknown; nearest: mnist-2026; `tfsteps runs` lists all"),
        ("zzz", "run 'zzz' is unknown; newest: mnist-2026, abxy, abcd; `tfsteps runs` lists all"),
        ("", "run '' is unknown; newest: mnist-2026, abxy, abcd; `tfsteps runs` lists all"),
        ("MNIST-20", "run 'MNIST-20' is unknown; nearest: mnist-2026, mnist, mnist-abc;"),
        ("mnsit-2", "run 'mnsit-2' is unknown; nearest: mnist-2026, mnist-abc, mnist;"),
        ("../abcd", "run '../abcd' is unknown; nearest: abcd"),
        ("lates", "run 'lates' is unknown; nearest: latest"),
    ],
)
@pytest.mark.parametrize("command", ["show", "logs", "stop", "report"])
def test_an_unknown_run_is_answered_with_those_that_are_near(command, typed, answer):
    assert refused(command, typed).startswith(f"error: {answer}")


def test_the_beginning_of_a_long_id_may_be_misspelled():
    saved(run="resnet-k7c2m9x4qp", task="fit", job="fit-abcdefghij", state=State.SUCCEEDED)
    assert refused("show", "rsnet-k").startswith("error: run 'rsnet-k' is unknown; nearest: resnet-k7c2m9x4qp; ")


@pytest.mark.usefixtures("three_runs")
@pytest.mark.parametrize(("typed", "offered"), [("ab", ["abxy", "abcd"]), ("la", ["latest"]), ("zz", [])])
def test_the_shell_completes_runs(typed, offered):
    asked = {"_TFSTEPS_COMPLETE": "complete_bash", "COMP_WORDS": f"tfsteps show {typed}", "COMP_CWORD": "2"}
    done = subprocess.run([COMMAND], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == offered


def test_an_exact_id_wins_over_longer_ones():
    for run in ("r1", "r10"):
        saved(run=run, state=State.SUCCEEDED)
    assert output_lines("show", "r1")[0].split() == ["run", "r1"]


def test_a_name_means_its_newest_run():
    saved(run="k1", task="fit", job="bert-aaaaaaaaaa", created=300.0, state=State.SUCCEEDED)
    saved(run="k2", task="fit", job="bert-bbbbbbbbbb", created=100.0, state=State.SUCCEEDED)
    nightly = Identity(run="k3", task="score", pipeline="nightly")
    saved(identity=nightly, run="k3", task="score", job="bert-cccccccccc", created=200.0, state=State.SUCCEEDED)
    for name, run in (("fit", "k1"), ("bert", "k1"), ("nightly", "k3"), ("score", "k3"), ("bert-bbbbbbbbbb", "k2")):
        assert output_lines("show", name)[0].split() == ["run", run]
    assert output_lines("runs", "fit")[1].split()[:2] == ["k1", "fit"]
    assert refused("show", "nightyl").startswith("error: run 'nightyl' is unknown; nearest: nightly; ")


def test_a_name_means_its_newest_run_also_if_ids_begin_with_it():
    saved(run="mnist-aaaa", created=100.0, state=State.SUCCEEDED)
    saved(run="mnist-eval-b", task="mnist-eval", created=200.0, state=State.SUCCEEDED)
    assert output_lines("show", "mnist")[0].split() == ["run", "mnist-aaaa"]
    saved(run="k7", created=300.0, state=State.SUCCEEDED)
    assert output_lines("show", "mnist")[0].split() == ["run", "k7"]


def test_ids_and_their_beginnings_win_over_names():
    saved(run="fit", task="a", created=1.0, state=State.SUCCEEDED)
    saved(run="score-1", task="b", created=2.0, state=State.SUCCEEDED)
    saved(run="k1", task="fit", created=3.0, state=State.SUCCEEDED)
    saved(run="k2", task="score", created=4.0, state=State.SUCCEEDED)
    assert output_lines("show", "fit")[0].split() == ["run", "fit"]
    assert output_lines("show", "score")[0].split() == ["run", "score-1"]
    saved(run="score-2", task="c", created=5.0, state=State.SUCCEEDED)
    assert refused("show", "score").startswith("error: run 'score' is ambiguous: score-1, score-2; ")


def test_a_pipeline_without_jobs_is_found_by_its_name():
    record = PipelineRecord(run="k1", pipeline="nightly", state=State.FAILED, message="no", created=1.0, ended=2.0)
    record.write()
    assert output_lines("show", "nightly")[0].split() == ["run", "k1"]


def test_without_any_run_the_next_step_is_named(home):
    assert refused("show", "latest") == (
        f"error: run 'latest' is unknown: there are no runs in {home}; start one with `tfsteps run`\n"
    )


def test_an_unknown_task_or_attempt_is_answered_with_what_is_there():
    for task, attempt in (("prepare", 0), ("train", 0), ("train", 1)):
        saved(task=task, attempt=attempt, state=State.FAILED)
    assert refused("logs", "r1", "--task", "trian") == "error: run r1: task 'trian' is unknown; it has prepare, train\n"
    assert refused("logs", "r1", "--attempt", 7) == "error: run r1: attempt 7 is unknown; there is 0, 1\n"


def test_the_newest_attempt_of_each_task_counts():
    for task, attempt in (("prepare", 0), ("train", 9), ("train", 10)):
        saved(task=task, attempt=attempt, state=State.FAILED)
    shown = [line.split(maxsplit=1)[1] for line in output_lines("show", "r1") if line.startswith("task ")]
    assert shown == ["prepare, attempt 0", "train, attempt 10"]


@pytest.mark.parametrize("command", [("runs",), ("show", "r1")])
def test_a_status_that_cannot_be_read_is_passed_over_with_a_warning(command):
    saved(task="good", state=State.SUCCEEDED)
    bad = saved(task="bad", state=State.SUCCEEDED)
    (bad.folder / "status.json").write_text("{")
    code, out, err = tfsteps(*command)
    assert code == 0
    assert "good" in out
    assert err.startswith(f"warning: {AttemptFolder(bad.folder).folder / 'status.json'} cannot be read: ")
    assert err.count("\n") == 1


def unread(**fields):
    """Save an attempt whose status cannot be read, and return its folder."""
    attempt = saved(state=State.SUCCEEDED, **fields)
    (attempt.folder / "status.json").write_text("{")
    return AttemptFolder(attempt.folder).folder


@pytest.mark.parametrize("command", [("attach",), ("rerun",), ("stop",), ("pause",), ("compare", "r2")], ids=str)
@pytest.mark.parametrize(
    ("task", "attempt", "chosen"), [("good", 1, ()), ("bad", 0, ()), ("bad", 0, ("--task", "bad"))], ids=str
)
def test_what_cannot_be_read_has_not_ended(command, task, attempt, chosen):
    saved(run="r2", task=task, state=State.SUCCEEDED)
    saved(task="good", state=State.SUCCEEDED)
    folder = unread(task=task, attempt=attempt)
    code, _, err = tfsteps(*command, "r1", *chosen)
    assert code == 13
    assert f"error: run r1: the state of task {task}, attempt {attempt}, is not known: {folder} has no status" in err


def test_what_is_not_selected_need_not_be_read():
    for attempt in (0, 1):
        saved(task="good", attempt=attempt, state=State.SUCCEEDED)
    unread(task="bad")
    unread(task="good", attempt=0)
    code, out, _ = tfsteps("stop", "r1", "--task", "good")
    assert (code, "already ended: good succeeded" in out) == (0, True)


def test_a_name_may_be_that_of_a_run_that_cannot_be_read():
    saved(run="r1", state=State.SUCCEEDED)
    folder = unread(run="r2")
    assert f"{folder / 'status.json'} cannot be read: Input data was truncated; it may be a newer run" in " ".join(
        tfsteps("show", "mnist")[2].split()
    )


@pytest.mark.parametrize("command", ["stop", "attach", "rerun"])
def test_a_pipeline_that_cannot_be_read_has_not_ended(command):
    file = saved(state=State.SUCCEEDED).folder.parents[1] / "pipeline.json"
    file.write_text("{")
    code, _, err = tfsteps(command, "r1")
    assert (code, f"the state of its pipeline is not known: {file} cannot be read; --task selects a job" in err) == (
        13,
        True,
    )
    code, _, err = tfsteps("show", "r1")
    assert (code, err) == (0, f"warning: {file} cannot be read: the state of the pipeline is not known\n")
    assert tfsteps("stop", "r1", "--task", "mnist")[0] == 0
