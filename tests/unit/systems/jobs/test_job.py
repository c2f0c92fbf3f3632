"""Plain Jobs: which of them are a job, and what they say about it."""

import pathlib

import pytest

from tfsteps import spec
from tfsteps.kube.watch import Changed, Deleted, Listed
from tfsteps.runs.events import ReplicaName, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.jobs.job import IndexedJobs
from tfsteps.systems.kubernetes.dependents import UNFINISHED
from tfsteps.systems.kubernetes.follow.tracker import Tracker
from tfsteps.systems.kubernetes.job_kind import DEPENDENTS

KIND = IndexedJobs()
PLACES = OutputPaths(output="/out", model="/out/model", logs="/out/logs", base_dir=pathlib.Path())
WHO = Identity(run="r", task="t")
ROLES = {"chief": {}, "worker": {"replicas": 2}, "ps": {}}


def rendered(**fields):
    job = spec.from_plain({"name": "mnist", "image": "i", "roles": ROLES, **fields}, "test", registry.options())
    assert KIND.spec_problems(job) == []
    return KIND.render(job, WHO, PLACES, "ns")


def listed(whole):
    """Return the Jobs as the API server lists them."""
    first = {**whole.manifest, "metadata": {**whole.manifest["metadata"], "uid": "first"}}
    owner = {"kind": "Job", "uid": "first"}
    parts = [part for part in whole.dependents if part["kind"] == "Job"]
    others = [
        {**part, "metadata": {**part["metadata"], "uid": part["metadata"]["name"], "ownerReferences": [owner]}}
        for part in parts
    ]
    return [{key: value for key, value in job.items() if key not in ("kind", "apiVersion")} for job in (first, *others)]


def jobs(whole, **conditions):
    """Return the job object of Jobs with a condition each, by role; `_` in a reason's place is none."""
    items = listed(whole)
    for item in items:
        condition = conditions.get(item["metadata"]["labels"]["tfsteps.dev/role"])
        if condition:
            type_, _, reason = condition.partition(":")
            item["status"] = {"conditions": [{"type": type_, "status": "True", "reason": reason}]}
    (roles,) = KIND.group_objects(reversed(items))
    return roles


VERDICTS = {
    "nothing yet": ({}, {}, State.PENDING),
    "the chief has succeeded": ({}, {"chief": "Complete"}, State.SUCCEEDED),
    "its pods still end": ({}, {"chief": "SuccessCriteriaMet"}, State.SUCCEEDED),
    "the workers have succeeded": ({}, {"worker": "Complete"}, State.PENDING),
    "a worker has failed": ({}, {"worker": "Failed:PodFailurePolicy"}, State.FAILED),
    "a worker is about to": ({}, {"worker": "FailureTarget:DeadlineExceeded"}, State.FAILED),
    "a worker has failed, the chief succeeded": ({}, {"chief": "Complete", "worker": "Failed"}, State.FAILED),
    "the chief alone is not enough": ({"success": "all_workers"}, {"chief": "Complete"}, State.PENDING),
    "the workers alone are not": ({"success": "all_workers"}, {"worker": "Complete"}, State.PENDING),
    "all workers": ({"success": "all_workers"}, {"chief": "Complete", "worker": "Complete"}, State.SUCCEEDED),
}


def without(item, *roles):
    """Return a job object some of whose parts were deleted."""
    kept = [part for part in item[DEPENDENTS] if part["metadata"]["labels"]["tfsteps.dev/role"] not in roles]
    return {**item, DEPENDENTS: kept}


MISSING = {
    "nothing has ended": ("chief", {}, ["worker"], State.UNKNOWN),
    "the rest has succeeded": ("all_workers", {"chief": "Complete"}, ["worker"], State.LOST),
    "it decides nothing, but may have failed": ("chief", {"chief": "Complete"}, ["ps"], State.LOST),
    "all of them": ("chief", {"chief": "Complete"}, ["ps", "worker"], State.LOST),
    "the others go on": ("all_workers", {"worker": "Complete"}, ["ps"], State.UNKNOWN),
    "another has failed": ("chief", {"chief": "Complete", "ps": "Failed"}, ["worker"], State.FAILED),
}


@pytest.mark.parametrize(("success", "conditions", "missing", "state"), MISSING.values(), ids=MISSING)
def test_a_part_that_is_gone_has_not_succeeded(success, conditions, missing, state):
    item = jobs(rendered(success=success), **conditions)
    seen = KIND.verdict(without(item, *missing))
    assert (seen.state, seen.reason if state is not State.FAILED else "PartDeleted") == (state, "PartDeleted")
    assert all(f"{item['metadata']['name']}-{role}" in seen.message for role in missing) or state is State.FAILED
    item["metadata"]["annotations"][UNFINISHED] = "its parts"
    assert KIND.verdict(without(item, "worker", "ps")).state is State.PENDING, "they do not exist yet"


ENDS = {
    "not seen": ("", State.LOST),
    "a success": ("Complete", State.SUCCEEDED),
    "a failure": ("Failed", State.FAILED),
}


@pytest.mark.parametrize("how", ["an event", "a list"])
@pytest.mark.parametrize(("end", "state"), ENDS.values(), ids=ENDS)
def test_who_follows_a_job_knows_how_a_deleted_part_ended(end, state, how):
    started, ended = jobs(rendered(success="all_workers")), jobs(rendered(success="all_workers"), worker=end)
    tracker = Tracker(KIND, started, [ReplicaName("chief", 0), ReplicaName("worker", 0)], 0.0)
    list(tracker.job(Listed([started, *ended[DEPENDENTS]]), 1.0))
    assert (tracker.final is not None) == (state is State.FAILED)
    (worker,) = (part for part in ended[DEPENDENTS] if part["metadata"]["name"].endswith("-worker"))
    rest = without(ended, "worker")
    list(tracker.job(Deleted(worker) if how == "an event" else Listed([rest, *rest[DEPENDENTS]]), 2.0))
    chief = jobs(rendered(success="all_workers"), chief="Complete")
    list(tracker.job(Changed(chief), 3.0))
    assert (tracker.final.state, tracker.object.item["metadata"]["uid"]) == (state, "first")


def test_a_part_that_was_made_by_somebody_else_afterwards_is_not_the_part():
    item = jobs(rendered(success="all_workers"))
    tracker = Tracker(KIND, item, [ReplicaName("chief", 0)], 0.0)
    list(tracker.job(Listed([item, *item[DEPENDENTS]]), 1.0))
    (worker,) = (part for part in item[DEPENDENTS] if part["metadata"]["name"].endswith("-worker"))
    list(tracker.job(Deleted(worker), 2.0))
    stranger = jobs(rendered(success="all_workers"), worker="Complete")[DEPENDENTS]
    (other,) = (part for part in stranger if part["metadata"]["name"] == worker["metadata"]["name"])
    other["metadata"] = {**other["metadata"], "uid": "other", "ownerReferences": []}
    list(tracker.job(Changed(other), 3.0))
    list(tracker.job(Changed(jobs(rendered(success="all_workers"), chief="Complete")), 4.0))
    assert tracker.final.state is State.LOST


@pytest.mark.parametrize(("fields", "conditions", "state"), VERDICTS.values(), ids=VERDICTS)
def test_verdict(fields, conditions, state):
    item = jobs(rendered(**fields), **conditions)
    assert KIND.verdict({**item, "spec": {**item["spec"], "suspend": False}}).state is state


def test_no_restart_is_no_limit_that_was_used_up():
    once, often = rendered(), rendered(restart="on_failure")
    reasons = [KIND.verdict(jobs(item, chief="Failed:BackoffLimitExceeded")).reason for item in (once, often)]
    assert reasons == ["ReplicaFailed", "BackoffLimitExceeded"]


@pytest.mark.parametrize(
    ("fields", "annotations", "state"),
    [
        ({}, {}, State.SUSPENDED),
        ({"roles": {"worker": {"replicas": 2}}, "queue": "research"}, {}, State.QUEUED),
        ({}, {UNFINISHED: "its parts"}, State.PENDING),
    ],
)
def test_who_holds_it_back(fields, annotations, state):
    item = jobs(rendered(**fields))
    item["metadata"]["annotations"].update(annotations)
    assert KIND.verdict(item).state is state


def test_what_was_ended_with_the_job_has_not_failed():
    item = jobs(rendered(), chief="Complete", ps="Failed:DeadlineExceeded")
    for part in item[DEPENDENTS]:
        part["metadata"]["annotations"] = {"tfsteps.dev/dismissed": "true"}
    assert KIND.verdict(item).state is State.SUCCEEDED


def test_what_goes_on_is_ended_and_what_has_ended_is_left():
    whole = rendered()
    name = whole.name
    changes = KIND.stop_stragglers(jobs(whole, chief="Complete", worker="Complete"))
    assert [(change.name, change.patch["spec"]) for change in changes] == [(f"{name}-ps", {"activeDeadlineSeconds": 1})]
    paused = KIND.pause(jobs(whole, worker="Complete"), paused=True)
    assert sorted(item.name for item in paused) == [name, f"{name}-ps"]
    assert {item.patch["spec"]["suspend"] for item in paused} == {True}


def test_the_jobs_of_others_are_no_job_of_ours():
    first, *_ = listed(rendered())
    strangers = [{"metadata": {"name": "x", "uid": "x"}}, {"metadata": {"name": "y", "uid": "y", "labels": {"a": "b"}}}]
    alone = {"metadata": {**first["metadata"], "name": "mnist-worker", "uid": "z"}, "spec": {}}
    assert [item["metadata"]["uid"] for item in KIND.group_objects([*strangers, alone, first])] == ["first"]


def test_it_starts_once_its_parts_are_there():
    whole = rendered()
    assert [manifest["kind"] for manifest in whole.dependents] == ["Service", "Job", "Job"]
    assert (whole.manifest["spec"]["suspend"], whole.unsuspend_patch) == (True, {"spec": {"suspend": False}})
    held = rendered(systems={"jobs": {"suspend": True}})
    assert (held.manifest["spec"]["suspend"], held.unsuspend_patch) == (True, {})
    single = rendered(roles={"worker": {}})
    assert "suspend" not in single.manifest["spec"]
    assert single.dependents == []


def test_roles_and_replicas():
    roles = KIND.roles(jobs(rendered()))
    assert {name: role.replicas for name, role in roles.items()} == {"chief": 1, "worker": 2, "ps": 1}
    labels = {"tfsteps.dev/role": "ps", "batch.kubernetes.io/job-completion-index": "1"}
    assert KIND.replica({"labels": labels}, []) == ReplicaName("ps", 1)
    assert KIND.replica({"labels": {"tfsteps.dev/role": "ps"}}, []) is None


def test_names_fit_where_pods_are_hosts():
    whole = rendered(name="n" * 63, roles={"chief": {}, "evaluator": {}, "worker": {"replicas": 1000}})
    names = [part["metadata"]["name"] for part in (whole.manifest, *whole.dependents) if part["kind"] == "Job"]
    assert max(len(f"{name}-{999 if 'worker' in name else 0}") for name in names) <= 63


def test_a_queue_would_admit_part_of_a_job():
    job = spec.from_plain({"name": "a", "image": "i", "roles": ROLES, "queue": "q"}, "test", registry.options())
    (problem,) = KIND.spec_problems(job)
    assert "each role's Job separately" in str(problem)
