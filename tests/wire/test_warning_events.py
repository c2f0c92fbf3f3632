"""A job whose operator may not create its pods: the warning events that are reported as its message."""

import pytest

from tests.support.waiting import until
from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_job import JOB, events, listed
from tfsteps.kube.client import Api
from tfsteps.runs.events import JobChanged
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow import warning_events
from tfsteps.systems.kubernetes.follow.job import KubernetesJob

QUOTA = 'Error creating: pods "job-worker-0" is forbidden: exceeded quota: team'

LATER = "2100-01-01T00:00:00Z"


def warning(message=QUOTA, reason="FailedCreatePod", kind="TFJob", name="job", at="2026-01-01T00:00:00Z"):
    about = {"kind": kind, "name": name}
    return {
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
        "metadata": {"creationTimestamp": at},
    }


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([warning()], "FailedCreatePod"),
        (
            [warning(), warning(reason="FailedCreate", kind="Job", name="job-node-0", at="2026-01-02T00:00:00Z")],
            "FailedCreate",
        ),
        ([warning(reason="FailedCreate", kind="Job", name="job2-node-0")], None),
        ([warning(reason="TFJobRestarting")], None),
        ([warning(reason="FailedCreatePodSandBox", kind="Pod", name="job-worker-0")], None),
        ([{**warning(), "lastTimestamp": None, "eventTime": "2026-01-01T00:00:00.000000Z"}], "FailedCreatePod"),
        ([], None),
    ],
)
def test_the_warning_event_that_explains_missing_pods(events, expected):
    newest = warning_events.newest(events, "job", 0.0)
    assert (newest and newest.reason) == expected


def test_a_warning_from_before_is_no_news():
    assert warning_events.newest([warning()], "job", 1767225600.0)  # that very second
    assert warning_events.newest([warning()], "job", 1767225601.0) is None


def look_for(monkeypatch, answers, *about_pods, first=0.2, looks=0):
    """Return (state, reason) of a job until its end, and the requests for events, whose `answers` are given.

    The first look comes after `first` seconds; pods change, and the job ends, after at least `looks` such requests.
    """
    monkeypatch.setattr(warning_events, "_FIRST_PAUSE", first)
    answers, looked = list(answers), []

    def script(asked):
        if asked.path.endswith("/events"):
            looked.append(asked)
            return answers.pop(0) if answers[1:] else answers[0]
        if asked.path.endswith("/log"):
            return Answer(body=b"")
        if "watch" not in asked.query:
            return listed(tfjob("Created")) if asked.path.endswith("/tfjobs") else listed()
        until(lambda: len(looked) >= looks)
        if asked.path.endswith("/tfjobs"):
            return events(first + 3.0, ("MODIFIED", tfjob("Failed")))
        return events(*about_pods)

    with serve(script) as server:
        seen = list(KubernetesJob(Api(server.access()), TFJob(), tfjob(), JOB, None).events())
        asked = [item for item in server.asked if item.path.endswith("/events")]
    return [(str(item.state), item.reason) for item in seen if isinstance(item, JobChanged)], asked


def test_the_reason_for_missing_pods_is_reported_until_they_exist(monkeypatch):
    states, _ = look_for(monkeypatch, [listed(warning(at=LATER)), listed()], 0.5, ("ADDED", pod("running")), looks=2)
    assert states == [("pending", ""), ("pending", "FailedCreatePod"), ("running", ""), ("failed", "TFJobFailed")]


def test_another_pod_of_the_same_refusal_is_no_news(monkeypatch):
    first, again = warning(at=LATER), warning(QUOTA.replace("worker-0", "worker-1"), at="2100-01-02T00:00:00Z")
    states, asked = look_for(monkeypatch, [listed(first), listed(first), listed(again)], looks=4)
    assert states.count(("pending", "FailedCreatePod")) == 1
    assert 2 * 2 <= len(asked) <= 2 * 5, "ever more seldom: each look asks twice"


def test_a_complaint_is_over_when_there_are_pods(monkeypatch):
    monkeypatch.setattr(warning_events, "_FIRST_PAUSE", 0.0)
    with serve(lambda asked: listed(warning(at=LATER))) as server:
        about = warning_events.WarningEvents(Api(server.access(), patience=0), "ns", "job", 0.0)
        warnings = [about.look(lambda short=short: short) for short in (True, True, False)]
        assert [bool(item) for item in warnings] == [True, True, False]
        monkeypatch.setattr(warning_events, "_FIRST_PAUSE", 60.0)
        about = warning_events.WarningEvents(Api(server.access(), patience=0), "ns", "job", 0.0)
        assert about.look(lambda: True) is None, "an operator is given time"


def test_a_server_that_asks_to_wait_with_events_is_not_asked_before(monkeypatch):
    monkeypatch.setattr(warning_events, "_FIRST_PAUSE", 0.0)
    with serve([refusal(429, **{"Retry-After": "30"})]) as server:
        about = warning_events.WarningEvents(Api(server.access(), patience=0), "ns", "job", 0.0)
        assert [about.look(lambda: True) for _ in range(3)] == [None] * 3
        assert len(server.asked) == 1


@pytest.mark.parametrize("status", [403, 500])
def test_events_that_cannot_be_seen_are_done_without(monkeypatch, status):
    states, asked = look_for(
        monkeypatch, [Answer(status=status, body={"message": "no"})], looks=1 if status == 403 else 2
    )
    assert states == [("pending", ""), ("failed", "TFJobFailed")]
    assert (len(asked) == 1) is (status == 403)


def test_nothing_is_asked_about_a_job_that_has_its_pods(monkeypatch):
    _, asked = look_for(monkeypatch, [listed()], 0.0, ("ADDED", pod("running")), first=3.0)
    assert asked == []
