"""The report of a run: every step, in its state, with a link to its own report."""

import urllib.parse

import msgspec
import pytest

from tests.support.finished import START
from tests.unit.report.test_html import Reader
from tests.unit.report.test_page import EVIL, check_policy
from tfsteps import report
from tfsteps.report.run_page import has_report, run_steps, write_run
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.pipeline_record import PipelineRecord, StepRecord
from tfsteps.runs.status import FailureSummary, Status
from tfsteps.runs.store import AttemptFolder

RUN = "k7c2m9x4qp"


def attempt_at(task, number=0, state=State.SUCCEEDED, at=0.0, ended=10.0, **fields):
    """Write the status of an attempt of the run; times in seconds since its beginning."""
    identity = Identity(run=RUN, task=task, attempt=number, pipeline="mnist-nightly")
    attempt = AttemptFolder.of(identity)
    attempt.claim().close()
    end = None if ended is None else START + ended
    status = Status(identity=identity, job=task, system="local", state=state, created=START + at, ended=end, **fields)
    attempt.write(status)
    return attempt


def step(name, exit_code=0, at=0.0, ended=1.0):
    state = State.FAILED if exit_code else State.SUCCEEDED
    return StepRecord(name=name, state=state, exit_code=exit_code, started=START + at, ended=START + ended)


def ended_pipeline(*steps, state=State.SUCCEEDED, message="", ended=100.0):
    record = PipelineRecord(
        run=RUN,
        pipeline="mnist-nightly",
        state=state,
        message=message,
        created=START,
        ended=START + ended,
        steps=list(steps),
    )
    record.write()
    return record


def page():
    path = write_run(RUN)
    assert path == store.run_report(RUN)
    return Reader(path.read_text(encoding="utf-8"))


def links(read):
    return [a["href"] for tag, a in read.tags if tag == "a" and not a["href"].startswith("#")]


def test_all_steps_of_a_pipeline_are_listed_in_the_order_of_their_starts():
    for attempt in (
        attempt_at("train", 0, State.FAILED, at=20, ended=30, failure=FailureSummary(summary="worker-1 failed.")),
        attempt_at("train", 1, at=31, ended=60, metrics={"loss": 0.0934}),
    ):
        report.write(attempt)
    ended_pipeline(step("prepare", at=1, ended=15), step("train", at=19, ended=61), step("export", at=62, ended=70))
    read = page()
    rows = read.text.partition("Metrics")[2]
    places = [rows.index(part) for part in ("prepare", "train", "worker-1 failed.", "loss 0.0934", "export")]
    assert places == sorted(places)
    assert rows.count("Succeeded") == 3
    assert rows.count("Failed") == 1
    assert {urllib.parse.unquote(link) for link in links(read)} == {"train/0/report.html", "train/1/report.html"}
    assert all((store.run_folder(RUN) / urllib.parse.unquote(link)).is_file() for link in links(read))
    assert "Why it failed" not in read.text, "the last attempt succeeded"
    assert [a["class"] for tag, a in read.tags if tag == "header"] == ["is-succeeded"]
    for known in ("mnist-nightly", RUN, "1m40s", "2025-06-15 15:06:40 UTC"):
        assert known in read.text


def test_a_failed_pipeline_names_the_steps_that_failed():
    attempt = attempt_at("train", 0, State.FAILED, failure=FailureSummary(summary="worker-1 failed with exit code 1."))
    report.write(attempt)
    ended_pipeline(step("prepare", 3), step("train", 10), state=State.FAILED, message="step prepare failed")
    text = page().text
    assert "train: worker-1 failed with exit code 1." in text
    assert "prepare: exit code 3" in text
    assert "step prepare failed" in text


def test_a_step_that_failed_after_its_job_is_not_hidden():
    attempt_at("train")
    ended_pipeline(step("train", 5), state=State.FAILED)
    assert "train: exit code 5, after its job had succeeded" in page().text


def test_a_pipeline_without_a_job():
    ended_pipeline(state=State.FAILED, message="image 'x' cannot run without containers")
    text = page().text
    assert "image 'x' cannot run without containers" in text
    assert "No step of this run was recorded on this machine." in text


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        ([State.SUCCEEDED, State.SUCCEEDED], State.SUCCEEDED),
        ([State.SUCCEEDED, State.CANCELLED], State.CANCELLED),
        ([State.CANCELLED, State.FAILED], State.FAILED),
    ],
)
def test_the_state_of_a_run_without_a_pipeline_follows_from_its_tasks(states, whole):
    for place, state in enumerate(states):
        attempt_at(f"task-{place}", state=state)
    assert run_steps(RUN).state is whole
    assert run_steps(RUN).ended == START + 10


def test_a_running_task_makes_the_run_running():
    attempt_at("one", state=State.FAILED)
    attempt = attempt_at("two", state=State.RUNNING, ended=None)
    with attempt.claim():
        run = run_steps(RUN)
        assert (run.state, run.ended) == (State.RUNNING, None)


def test_a_pipeline_whose_process_was_killed_is_lost():
    attempt_at("train")
    with store.locked(store.pipeline_folder(RUN)):
        assert run_steps(RUN).state is State.RUNNING
    run = run_steps(RUN)
    assert run.state is State.LOST
    assert "was killed" in run.message
    assert "was killed" in page().text


def test_a_status_that_cannot_be_read_is_a_warning():
    attempt_at("good")
    (attempt_at("bad").folder / "status.json").write_bytes(b"{")
    text = page().text
    assert "bad/0/status.json cannot be read" in text
    assert "good" in text


def test_steps_are_in_natural_order_if_they_start_together():
    for place in (10, 2, 1):
        attempt_at(f"for-loop-1-iteration-{place}/train")
    assert [item.step.split("-")[-1] for item in run_steps(RUN).tries] == ["1/train", "2/train", "10/train"]


def test_which_runs_have_a_report():
    assert not has_report(RUN)
    attempt_at("train")
    assert not has_report(RUN)
    ended_pipeline()
    assert has_report(RUN)
    store.run_folder(RUN).joinpath("pipeline.json").unlink()
    attempt_at("train", 1)
    assert has_report(RUN)


def test_thousands_of_attempts_are_cut():
    ended_pipeline(*[step(f"step-{place}", at=place, ended=place + 1) for place in range(2000)])
    read = page()
    assert "1,500 earlier attempts not shown." in read.text
    assert len([a for tag, a in read.tags if a.get("class") == "row step"]) == 500


def test_what_comes_from_outside_stays_text():
    summary = FailureSummary(summary=EVIL)
    report.write(attempt_at(EVIL.replace("\x00", ""), state=State.FAILED, failure=summary, metrics={EVIL: 1.0}))
    report.write(attempt_at("javascript:alert(1)", state=State.FAILED))
    msgspec.structs.replace(ended_pipeline(), pipeline=EVIL, message=EVIL, state=State.FAILED).write()
    path = write_run(RUN)
    text = path.read_text(encoding="utf-8")
    read = Reader(text)
    check_policy(text)
    assert not [tag for tag, _ in read.tags if tag in ("img", "iframe", "object")]
    assert not any(name.startswith("on") for _, attrs in read.tags for name in attrs)
    assert [urllib.parse.urlparse(link).scheme for link in links(read)] == [""] * len(links(read))
    assert all((store.run_folder(RUN) / urllib.parse.unquote(link)).is_file() for link in links(read))
    assert links(read)
