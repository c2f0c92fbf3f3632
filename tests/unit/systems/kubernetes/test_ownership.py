"""Which job a pod belongs to, where an earlier job had the same name and labels: for each kind of job."""

import pytest

from tests.unit.systems.kubernetes.follow.test_tracker import W0, W1, Scenario, leaving
from tests.unit.systems.kubernetes.objects import pod, tfjob
from tfsteps.kube.watch import Changed, Deleted, Listed
from tfsteps.systems import registry
from tfsteps.systems.jobs.job import IndexedJobs
from tfsteps.systems.jobset.jobset import JobSet
from tfsteps.systems.kubernetes.job_kind import DEPENDENTS
from tfsteps.systems.kubernetes.ownership import is_foreign, is_own
from tfsteps.systems.kubernetes.query.status import job_pods
from tfsteps.systems.trainjob.trainjob import TrainJob

BEFORE, AT, AFTER = (f"2026-01-01T00:00:{second:02d}Z" for second in (5, 10, 11))
JOB = {"metadata": {"name": "job", "uid": "new", "creationTimestamp": AT}}


def meta(owner=None, *, created=AFTER, deleting=False, **labels):
    """Return a pod's metadata; `owner` is (kind, uid)."""
    owners = [{"kind": owner[0], "uid": owner[1], "controller": True}] if owner else []
    end = {"deletionTimestamp": AFTER} if deleting else {}
    return {"name": "p", "uid": "p", "creationTimestamp": created, "ownerReferences": owners, "labels": labels, **end}


DIRECT = [kind for kind in registry.kinds() if kind.name in ("kubeflow", "t9k", "tfjob-v1alpha1")]


@pytest.mark.parametrize("kind", DIRECT, ids=lambda kind: kind.resource.api)
def test_a_pod_that_its_job_owns(kind):
    own, other = meta((kind.resource.kind, "new"), created=BEFORE), meta((kind.resource.kind, "old"))
    assert (is_own(kind, own, JOB), is_foreign(kind, own, JOB)) == (True, False)
    assert (is_own(kind, other, JOB), is_foreign(kind, other, JOB)) == (False, True)


def test_a_pod_that_a_part_of_the_job_owns():
    job = {**JOB, DEPENDENTS: [{"metadata": {"name": "job-ps", "uid": "part"}}]}
    for uid in ("new", "part"):
        assert is_own(IndexedJobs(), meta(("Job", uid), created=BEFORE), job)


def test_a_pod_of_a_part_that_has_not_been_seen_yet_is_not_passed_over():
    assert not is_foreign(IndexedJobs(), meta(("Job", "unseen")), JOB)


def test_a_jobset_is_identified_by_a_label():
    label = "jobset.sigs.k8s.io/jobset-uid"
    new, old = meta(("Job", "j"), **{label: "new"}), meta(("Job", "j"), **{label: "old"})
    assert (is_own(JobSet(), new, JOB), is_foreign(JobSet(), new, JOB)) == (True, False)
    assert (is_own(JobSet(), old, JOB), is_foreign(JobSet(), old, JOB)) == (False, True)


LABEL = {"jobset.sigs.k8s.io/jobset-name": "job"}
UNTOLD = {  # of objects in between: is it certainly ours, is it certainly not
    "made after the job": (meta(("Job", "j"), **LABEL), (True, False)),
    "made in the same second": (meta(("Job", "j"), created=AT, **LABEL), (True, False)),
    "older, and being deleted": (meta(("Job", "j"), created=BEFORE, deleting=True, **LABEL), (False, True)),
    "older, by the clock of another API server": (meta(("Job", "j"), created=BEFORE, **LABEL), (False, False)),
    "of another name": (meta(("Job", "j"), **{next(iter(LABEL)): "another"}), (False, False)),
    "of nobody": (meta(**LABEL), (False, False)),
}


@pytest.mark.parametrize(("pod_meta", "expected"), UNTOLD.values(), ids=UNTOLD)
def test_ownership_without_a_uid(pod_meta, expected):
    assert (is_own(TrainJob(), pod_meta, JOB), is_foreign(TrainJob(), pod_meta, JOB)) == expected


# --- a name that is used again


def of_the_old(replica="worker-0", uid="old-0"):
    item = leaving("running", replica, uid)
    item["metadata"]["ownerReferences"] = [{"kind": "TFJob", "uid": "u0"}]
    return item


def of_the_new(replica="worker-0", uid="p0"):
    item = pod("running", replica, uid)
    item["metadata"]["ownerReferences"] = [{"kind": "TFJob", "uid": "u1"}]
    return item


NEW = [of_the_new("worker-0", "p0"), of_the_new("worker-1", "p1")]
OLD = [of_the_old("worker-0", "old-0"), of_the_old("worker-1", "old-1")]
ORDERS = {
    "the old first": [Listed(OLD), *map(Changed, NEW)],
    "listed together": [Listed([*OLD, *NEW])],
    "the new listed first": [Listed([*NEW, *OLD])],
    "they end one after another": [Listed(OLD), *map(Changed, NEW), *map(Deleted, OLD)],
}


@pytest.mark.parametrize("seen", ORDERS.values(), ids=ORDERS)
def test_pods_of_the_job_that_had_the_name_before_are_no_restarts(seen):
    scenario = Scenario().pods(*seen)
    assert scenario.tracker.restarts == 0
    assert scenario.tracker.pods.keys() == {"p0", "p1"}, "what is removed with the job"
    assert [scenario.replica(each) for each in (W0, W1)] == [[("running", 0)]] * 2


def test_a_pod_that_was_taken_for_ours_before_it_was_being_deleted_is_given_back():
    old, new = pod("running", uid="old"), pod("running", uid="p0")
    old["metadata"]["creationTimestamp"], new["metadata"]["creationTimestamp"] = BEFORE, AFTER
    gone = {**old, "metadata": {**old["metadata"], "deletionTimestamp": AFTER}}
    job = tfjob("Running")
    job["metadata"]["creationTimestamp"] = AT
    scenario = Scenario().job(Changed(job)).pods(Changed(old), Changed(gone))
    assert (scenario.replica(), scenario.tracker.pods) == ([("running", 0), ("pending", 0)], {})
    scenario.pods(Changed(new), Deleted(gone)).job(Listed([job]))
    assert (scenario.replica()[-1], scenario.tracker.restarts) == (("running", 0), 0)
    scenario.said += scenario.tracker.dismissed(scenario.now)
    reordered = Scenario().job(Changed(job)).pods(Changed(old), Changed(new), Changed(gone), Deleted(gone))
    assert (reordered.replica()[-1], reordered.tracker.restarts) == (("running", 0), 0)


def test_who_looks_at_a_job_sees_its_own_pods_alone():
    job, old = {**tfjob(), "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": {}}}}}, OLD[0]
    items = [{**each, "metadata": {**each["metadata"], "creationTimestamp": AT}} for each in (old, *NEW)]
    assert [each.pod.uid for each in job_pods(registry.kinds_of("kubeflow")[0], job, items)] == ["p0", "p1"]
