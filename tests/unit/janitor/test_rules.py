"""What is due for a job, from what it says of itself and of its Workflow."""

import datetime as dt
import math

import pytest

from tests.unit.systems.kubernetes.objects import condition, tfjob
from tfsteps import spec
from tfsteps.janitor.rules import PATIENCE_SECONDS, DefaultRetention, Reason, due
from tfsteps.platforms.tfjob_v1alpha1.tfjob import KINDS
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.cleanup.retention import RetentionPolicy, annotations, retention_policy
from tfsteps.systems.kubernetes.job_kind import DEPENDENTS
from tfsteps.systems.kubernetes.query.status import job_ended

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC).timestamp()
GONE = "its Workflow is gone"


def iso(seconds):
    return dt.datetime.fromtimestamp(NOW - seconds, dt.UTC).isoformat()


def job(*conditions, age=60.0, ended=30.0, deleted=False, **noted):
    """Return a TFJob that is `age` seconds old, with annotations: `keep_for` is tfsteps.dev/keep-for."""
    item = tfjob(*({**condition(entry), "lastTransitionTime": iso(ended)} for entry in conditions))
    item["metadata"] |= {
        "creationTimestamp": iso(age),
        "annotations": {f"tfsteps.dev/{key.replace('_', '-')}": text for key, text in noted.items()},
    }
    if deleted:
        item["metadata"]["deletionTimestamp"] = iso(1)
    return item


def outcome(item, left="", pods=True):
    """Return what is due, and the why."""
    it = due(TFJob(), item, NOW, why_abandoned=lambda: left, has_pods=lambda: pods)
    return (it.what, it.why) if it else None


OVERDUE = 120 + PATIENCE_SECONDS
CASES = {
    "it runs": (job("Running"), "", None),
    "it runs and nobody comes": (job("Running"), GONE, ("job", f"it is running, and {GONE}")),
    "it has not begun and nobody comes": (job(), GONE, ("job", f"it is pending, and {GONE}")),
    "it is being deleted": (job("Running", deleted=True), GONE, None),
    "its deadline is over": (job("Running", age=OVERDUE, deadline="120"), "", ("job", "of 2m passed 1m ago")),
    "its launcher still has time to end it": (job("Running", age=OVERDUE - 1, deadline="120"), "", None),
    "it knows no deadline": (job("Running", age=1e7), "", None),
    "its deadline is nonsense": (job("Running", age=1e7, deadline="soon"), "", None),
    "it has failed": (job("Failed"), GONE, None),
    "it has failed, and is to be deleted": (job("Failed", on_end="delete"), GONE, ("job", "on_end is delete")),
    "it is to be deleted, but somebody may come": (job("Succeeded", on_end="delete"), "", None),
    "it has succeeded": (job("Succeeded"), GONE, ("pods", "on_end is delete_pods")),
    "it has succeeded, but somebody may come": (job("Succeeded"), "", None),
    "it has succeeded, and is kept": (job("Succeeded", on_end="keep"), GONE, None),
    "its policy is nonsense": (job("Failed", on_end="burn"), GONE, None),
    "it failed, and its pods are to go": (job("Failed", on_end="delete_pods"), GONE, ("pods", "it has failed")),
    "it was kept long enough": (job("Succeeded", ended=61, keep_for="60"), "", ("job", "keep_for is 1m")),
    "it was kept for no time": (job("Failed", ended=1, keep_for="0"), "", ("job", "ended 1s ago")),
    "it is kept for a while": (job("Failed", ended=59, keep_for="60"), GONE, None),
    "it is kept for a retry": (job("Running", age=OVERDUE, deadline="120", kept_until=iso(-1)), GONE, None),
    "it is kept for another try, which may come": (job("Running", kept_until=iso(-1), kept_for_try="{}"), "", None),
    "it is kept for another try, and nobody comes": (
        job("Running", kept_until=iso(-1), kept_for_try="{}"),
        GONE,
        ("job", f"it is running, and {GONE}"),
    ),
    "it is kept for another try, and its deadline is over": (
        job("Running", age=OVERDUE, deadline="120", kept_until=iso(-1), kept_for_try="{}"),
        "",
        ("job", "of 2m passed 1m ago"),
    ),
    "Kubernetes deletes it now": (job("Running", kept_until=iso(PATIENCE_SECONDS)), GONE, None),
    "Kubernetes did not": (
        job("Running", kept_until=iso(90)),
        "",
        ("job", "kept for a retry ended 1m30s ago"),
    ),
    "it is kept until nonsense": (job("Running", kept_until="soon"), "", None),
    "it runs for longer than it is kept": (job("Running", ended=61, keep_for="60"), "", None),
}


@pytest.mark.parametrize(("item", "left", "expected"), CASES.values(), ids=CASES)
def test_due(item, left, expected):
    it = outcome(item, left)
    assert (it and it[0]) == (expected and expected[0])
    if expected:
        assert expected[1] in it[1]


CHANGES = [{"manager": "tfsteps", "time": iso(500)}, {"manager": "operator", "time": iso(100)}, {"manager": "old"}]
DONE = {"phase": "Done", "state": "Succeeded"}  # of an operator that writes no times


@pytest.mark.parametrize(("keep_for", "what"), [("99", "job"), ("101", None)])
def test_a_job_whose_status_has_no_times_ended_when_it_was_changed_last(keep_for, what):
    item = job(keep_for=keep_for, on_end="keep")
    item["status"], item["metadata"]["managedFields"] = DONE, CHANGES
    it = due(KINDS["tensorflow.org"], item, NOW, why_abandoned=lambda: "", has_pods=lambda: False)
    assert (it and it.what) == what


def test_a_job_ends_with_a_part_of_it_that_failed():
    item = {
        **job(),
        DEPENDENTS: [
            {"metadata": {}, "status": {"conditions": [{**condition("Failed"), "lastTransitionTime": iso(7)}]}}
        ],
    }
    item["metadata"]["managedFields"] = CHANGES
    assert job_ended(item) == NOW - 7


REASONS = {
    Reason.DEADLINE: (job("Running", age=OVERDUE, deadline="120"), GONE),
    Reason.ABANDONED: (job("Running"), GONE),
    Reason.KEEP_FOR: (job("Failed", ended=61, keep_for="60"), ""),
    Reason.KEPT_FOR_RETRY: (job("Running", kept_until=iso(90)), ""),
    Reason.RETENTION: (job("Failed", ended=7201), ""),
}


@pytest.mark.parametrize("reason", Reason)
def test_each_reason(reason):
    item, left = REASONS[reason]
    it = due(TFJob(), item, NOW, why_abandoned=lambda: left, has_pods=lambda: True, default=HOURS)
    assert (it.what, it.reason) == ("job", reason)


def test_the_reason_of_an_ended_job_is_that_of_its_clean_up():
    for reason, item in {
        Reason.ABANDONED: job("Succeeded"),
        Reason.DEADLINE: job("Succeeded", age=OVERDUE, deadline="120"),
    }.items():
        it = due(TFJob(), item, NOW, why_abandoned=lambda: GONE, has_pods=lambda: True)
        assert (it.what, it.reason) == ("pods", reason)


# --- default retention

HOURS = DefaultRetention(succeeded=3600, failed=7200)
WORKFLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}


def owned(*conditions, **options):
    item = job(*conditions, **options)
    item["metadata"]["ownerReferences"] = [WORKFLOW]
    return item


def without_end():
    item = job("Succeeded", age=1e6)
    del item["status"]["conditions"][0]["lastTransitionTime"]
    return item


DEFAULTS = {
    "it succeeded an hour ago": (job("Succeeded", ended=3601), "", "it ended 1h ago, --keep-succeeded is 1h"),
    "it succeeded, and its time has not passed": (job("Succeeded", ended=3599), "", None),
    "it failed an hour ago": (job("Failed", ended=3601), "", None),
    "it failed two hours ago": (job("Failed", ended=7201), "", "it ended 2h ago, --keep-failed is 2h"),
    "it is to be kept at its end": (job("Failed", ended=7201, on_end="keep"), "", "--keep-failed is 2h"),
    "its keep_for is longer": (job("Succeeded", ended=3601, keep_for="3700"), "", None),
    "its keep_for is shorter": (job("Succeeded", ended=61, keep_for="60"), "", "keep_for is 1m"),
    "its keep_for is nonsense": (job("Failed", ended=7201, keep_for="soon"), "", "--keep-failed is 2h"),
    "it runs": (job("Running", age=1e6, ended=1e6), "", None),
    "it has not begun": (job(age=1e6), "", None),
    "its end is not known": (without_end(), "", None),
    "its end is in the future": (job("Failed", ended=-7201), "", None),
    "it is kept for a retry": (job("Failed", ended=7201, kept_until=iso(-1)), "", None),
    "it is kept until nonsense": (job("Failed", ended=7201, kept_until="soon"), "", None),
    "it is being deleted": (job("Failed", ended=7201, deleted=True), GONE, None),
    "its Workflow continues": (owned("Failed", ended=7201), "", None),
    "it is left for a wait step": (owned("Failed", ended=7201, detached=""), "", None),
    "its end is reported": (owned("Failed", ended=7201, reported=""), "", "--keep-failed is 2h"),
    "its Workflow is gone": (owned("Failed", ended=7201), GONE, "--keep-failed is 2h"),
}


@pytest.mark.parametrize(("item", "left", "why"), DEFAULTS.values(), ids=DEFAULTS)
def test_default_retention(item, left, why):
    it = due(TFJob(), item, NOW, why_abandoned=lambda: left, has_pods=lambda: False, default=HOURS)
    assert (it is None) == (why is None)
    if it:
        assert it.what == "job"
        assert why in it.why


@pytest.mark.parametrize(("ended", "what"), [(1, None), (PATIENCE_SECONDS, None), (PATIENCE_SECONDS + 1, "job")])
def test_a_launcher_has_time_to_report_whatever_the_default(ended, what):
    at_once = DefaultRetention(succeeded=0, failed=0)
    for state in ("Succeeded", "Failed"):
        item = job(state, ended=ended)
        it = due(TFJob(), item, NOW, why_abandoned=lambda: "", has_pods=lambda: True, default=at_once)
        assert (it and it.what) == what


@pytest.mark.parametrize(("item", "_left", "_expected"), CASES.values(), ids=CASES)
def test_nothing_is_due_by_age_without_a_clock(item, _left, _expected):
    it = due(TFJob(), item, -math.inf, why_abandoned=lambda: "", has_pods=lambda: True, default=HOURS)
    assert it is None


def test_pods_that_are_gone_need_no_deletion():
    assert outcome(job("Succeeded"), GONE, pods=False) is None


def test_who_is_not_due_costs_no_question():
    def asked():
        raise AssertionError

    for item in (job("Succeeded", on_end="keep"), job("Failed"), job("Running", deleted=True)):
        assert due(TFJob(), item, NOW, why_abandoned=asked, has_pods=asked) is None


def test_the_retention_policy_of_a_job_is_read_from_its_annotations():
    described = {"name": "a", "image": "i", "roles": {"worker": {}}, "on_end": "keep", "keep_for": "1h"}
    noted = annotations(spec.from_plain({**described, "deadlines": {"total": "1d"}}))
    assert retention_policy({"metadata": {"annotations": noted}}) == RetentionPolicy(
        deadline=86400, keep_for=3600, on_end="keep"
    )


@pytest.mark.parametrize("text", ["-inf", "inf", "nan", "-1", "1e999", "soon", "", "1h"])
def test_an_annotation_that_is_no_duration_counts_as_absent(text):
    noted = {"tfsteps.dev/deadline": text, "tfsteps.dev/keep-for": text}
    assert retention_policy({"metadata": {"annotations": noted}}) == RetentionPolicy()


def test_the_retention_policy_of_a_job_without_annotations():
    noted = annotations(spec.from_plain({"name": "a", "image": "i", "roles": {"worker": {}}}))
    assert retention_policy({"metadata": {"annotations": noted}}) == RetentionPolicy(deadline=7 * 86400)
    assert retention_policy({"metadata": {}}) == RetentionPolicy()


def test_a_job_that_was_launched_from_another_cluster_is_not_taken_for_one_without_launcher():
    """Its Workflow cannot be seen here: its end may not be reported yet, and a retry may adopt it."""
    short = DefaultRetention(succeeded=3600.0, failed=3600.0)
    asked = {"why_abandoned": lambda: "", "has_pods": lambda: False, "default": short}
    ended = {"age": 90_000.0, "ended": 80_000.0, "on_end": "keep"}
    assert due(TFJob(), job("Succeeded", **ended), NOW, **asked), "launched by a command of this cluster"
    assert due(TFJob(), job("Succeeded", home="{}", **ended), NOW, **asked) is None
    assert due(TFJob(), job("Succeeded", home="{}", reported="now", **ended), NOW, **asked).reason is Reason.RETENTION
    assert due(TFJob(), job("Succeeded", home="{}", keep_for="60", **ended), NOW, **asked).reason is Reason.KEEP_FOR
    running = job("Running", age=90_000.0, home="{}", deadline="3600")
    assert due(TFJob(), running, NOW, **asked).reason is Reason.DEADLINE
