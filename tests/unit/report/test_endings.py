"""Ends that look like failures: replicas that were stopped, and runs whose launcher was killed."""

import msgspec
import pytest

from tests.support import finished
from tests.support.finished import START, attempt_of, changes, ran
from tests.support.locations import location_of
from tests.unit.report.test_html import Reader
from tests.unit.report.test_page import page_of
from tfsteps.report import sections
from tfsteps.report.formats import duration
from tfsteps.runs.events import State

JOB = "{name: wide, command: [python, train.py], roles: {chief: {}, worker: {replicas: %d}}}"


def stopped_workers(state, workers):
    attempt, status = attempt_of(JOB % workers, state, started=START + 1, ended=START + 60)
    ran(status.replicas[0], 0, 59, "succeeded", 0)
    for replica in status.replicas[1:]:
        ran(replica, 0, 60, "stopped", 143)
    return attempt, status


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (State.SUCCEEDED, "the job had succeeded: chief-0 decides how it ends"),
        (State.FAILED, "the job had failed"),
        (State.CANCELLED, "the job was cancelled"),
        (State.RUNNING, "the job did not need them any more"),
    ],
)
def test_why_workers_were_stopped(state, cause):
    _, status = stopped_workers(state, 2)
    expected = f"worker-0 and worker-1 were stopped because {cause}. This is not a failure: they are shown as stopped."
    assert sections.stopped(status) == expected


def test_nothing_is_said_about_replicas_that_ended_by_themselves():
    assert sections.stopped(attempt_of(JOB % 1, State.SUCCEEDED)[1]) == ""


def test_replicas_that_lost_a_peer_lead_to_the_one_that_failed_first():
    text = Reader(page_of(finished.failed())).text
    expected = (
        "chief-0, worker-0 and worker-2 failed because worker-1 was lost (PeerLost): look at the log of worker-1."
    )
    assert expected in text
    assert "evaluator-0 was stopped because the job had failed." in text


def test_without_a_replica_that_failed_first_nobody_is_blamed():
    status = finished.failed().status()
    status.failure = msgspec.structs.replace(status.failure, replica="chief-0")
    assert sections.peer_lost(status) == ""
    status.failure = None
    assert sections.peer_lost(status) == ""


def test_stopped_workers_do_not_look_like_failures():
    attempt, status = stopped_workers(State.SUCCEEDED, 20)
    attempt.write(status)
    text = Reader(page_of(attempt)).text
    assert "worker-0, worker-1, worker-2, worker-3, worker-4 and 15 more were stopped because" in text
    assert "exit code 143" not in text
    assert "143" in text, "the table of starts has it"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (list("abcdef"), "a, b, c, d, e and f"),
        (list("abcdefg"), "a, b, c, d, e and 2 more"),
    ],
)
def test_lists_of_names(names, text):
    assert sections.listed(names) == text


def killed(system, namespace="", *, seen=False):
    """Return the text of the report of a job whose launcher was killed while it ran; `seen` = its replicas ended."""
    attempt, status = attempt_of(JOB % 3, State.RUNNING, started=START + 1)
    if seen:
        attempt.replicas_ended.touch()
    status.system, status.namespace = system, namespace
    status.location = location_of(system)["location"]
    status.outlives_launcher = location_of(system)["outlives_launcher"]
    ran(status.replicas[0], 0, None, "running")
    ran(status.replicas[1], 0, None, "running")
    ran(status.replicas[2], 0, 20, "succeeded", 0)
    status.transitions = changes((0, "pending"), (1, "running"))
    attempt.write(status)
    return Reader(page_of(attempt)).text


def test_a_lost_run_of_this_machine():
    text = killed("local", seen=True)
    assert "The end of this job is not recorded: its launcher was killed." in text
    assert "Running thenchief-0 and worker-0" in text
    assert "Before1 replica succeeded and 1 replica never started" in text
    assert "Nothing of the job is running" in text
    assert "Last record20" in text
    assert "until the last record" in text
    assert "chief-0, worker-0 and worker-2 were stopped because their launcher was killed" in text


def test_replicas_of_this_machine_that_were_not_seen_to_end():
    assert "Not known here: the replicas were not seen to be stopped with the launcher." in killed("local")


def test_a_lost_run_of_a_job_system_that_no_other_command_asks():
    assert "tfsteps attach k7c2m9x4qp --task wide follows it to its end, if it goes on." in killed("robots")


@pytest.mark.parametrize(
    ("system", "namespace", "place"),
    [("kubeflow", "team-a", "--on kubernetes --namespace team-a"), ("hai", "", "--on hai")],
)
def test_a_lost_run_elsewhere(system, namespace, place):
    text = killed(system, namespace)
    assert "the job may go on" in text
    assert f"tfsteps show k7c2m9x4qp {place} shows whether it goes on." in text
    adopt = f"tfsteps run job.yaml {place} --system {system} --run-id k7c2m9x4qp --task wide --adopt"
    assert f"{adopt} follows it to its end." in text
    assert "were stopped" not in text


def test_an_end_that_is_recorded_is_not_lost():
    status = finished.failed().status()
    assert sections.lost(status) is None


@pytest.mark.parametrize(("seconds", "shown"), [(-900, "not known"), (-30, "0s"), (75, "1m15s"), (None, "\N{EN DASH}")])
def test_a_time_that_a_changed_clock_made_negative_is_not_known(seconds, shown):
    assert duration(seconds) == shown


def test_a_report_whose_end_is_before_its_start_names_no_duration():
    attempt, status = attempt_of(JOB % 1, State.SUCCEEDED, started=START + 1, ended=START - 900)
    attempt.write(status)
    assert "Durationnot known" in Reader(page_of(attempt)).text.replace("\n", "")
