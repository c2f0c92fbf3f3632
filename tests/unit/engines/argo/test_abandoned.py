"""Which Workflow a job belongs to, and how that Workflow ends."""

import pytest

from tfsteps.engines.argo.workflow import end_of
from tfsteps.engines.argo.workflow_objects import owner_of


def workflow(uid="w", phase="", **spec_):
    return {"metadata": {"uid": uid}, "spec": spec_, "status": {"phase": phase} if phase else {}}


ENDS = {
    "it is there": (workflow(), ""),
    "it runs": (workflow(phase="Running"), ""),
    "it is suspended": (workflow(phase="Running", suspend=True), ""),
    "it is pending": (workflow(phase="Pending", activeDeadlineSeconds=600), ""),
    "gone": (None, "is gone"),
    "another one has its name": (workflow(uid="x"), "is gone"),
    "succeeded": (workflow(phase="Succeeded"), "has ended (Succeeded)"),
    "failed": (workflow(phase="Failed", shutdown="Terminate"), "has ended (Failed)"),
    "error": (workflow(phase="Error"), "has ended (Error)"),
    "stopped": (workflow(phase="Running", shutdown="Stop"), "is being stopped"),
    "terminated by Kubeflow Pipelines": (workflow(phase="Running", activeDeadlineSeconds=0), "is being stopped"),
    "deleted": ({"metadata": {"uid": "w", "deletionTimestamp": "t"}, "spec": {}}, "is being stopped"),
}


@pytest.mark.parametrize(("item", "expected"), ENDS.values(), ids=ENDS)
def test_end_of_a_workflow(item, expected):
    assert end_of(item, "w") == expected


def test_owner():
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}
    owner_reference = owner_of(owned(*({**owner, **other} for other in OTHERS), owner))
    assert (owner_reference.name, owner_reference.uid) == ("wf", "w")
    assert owner_of(owned()) is None


def owned(*owners):
    return {"metadata": {"namespace": "ns", "name": "a", "uid": "u", "ownerReferences": list(owners)}}


OTHERS = [
    {"apiVersion": "example.org/v1"},
    {"apiVersion": "argoproj.io/v9"},
    {"apiVersion": "argoproj.io.example.org/v1alpha1"},
    {"kind": "CronWorkflow"},
    {"name": "../../secrets/s"},
    {"name": ""},
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_what_is_no_workflow_owns_no_job(other):
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}
    assert owner_of(owned({**owner, **other})) is None
