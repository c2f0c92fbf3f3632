"""A gang's PodGroup, what makes its pods members, and what cannot be a gang."""

import pytest

from tfsteps import spec
from tfsteps.systems.kubernetes.render import gang

ROLES = {"chief": {}, "worker": {"replicas": 3}}


def job(**fields):
    return spec.from_plain({"name": "j", "image": "i:1", "roles": ROLES, **fields})


@pytest.mark.parametrize(
    ("fields", "expected", "policy"),
    [
        ({}, {"minMember": 4}, {"minAvailable": 4}),
        ({"min_available": 2}, {"minMember": 2}, {"minAvailable": 2}),
        (
            {"timeout": "2m"},
            {"minMember": 4, "scheduleTimeoutSeconds": 120},
            {"minAvailable": 4, "scheduleTimeoutSeconds": 120},
        ),
        (
            {"timeout": "1s"},
            {"minMember": 4, "scheduleTimeoutSeconds": 1},
            {"minAvailable": 4, "scheduleTimeoutSeconds": 1},
        ),
    ],
)
def test_the_group_and_what_an_operator_makes_of_it(fields, expected, policy):
    group = gang.pod_group(job(gang=fields), "j-1", "ml", {"a": "b"})
    assert group == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "j-1", "namespace": "ml", "labels": {"a": "b"}},
        "spec": expected,
    }
    assert gang.scheduling_policy(job(gang=fields).gang, 4) == {**policy, "minResources": {}}


def test_a_pod_of_a_gang():
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"containers": []}}
    assert gang.gang_pod(template, job(gang={}).gang, "j-1") == {
        "metadata": {"labels": {"a": "b", "scheduling.x-k8s.io/pod-group": "j-1"}, "annotations": {"c": "d"}},
        "spec": {"containers": [], "schedulerName": "scheduler-plugins-scheduler"},
    }
    assert template["metadata"]["labels"] == {"a": "b"}, "the argument is left alone"
    other = gang.gang_pod({"spec": {}}, job(gang={"scheduler": "mine"}).gang, "j-1")
    assert other["spec"] == {"schedulerName": "mine"}


def test_without_a_gang_there_is_no_permission_and_no_problem():
    assert (gang.permissions(job()), gang.spec_problems(job())) == ([], [])


def test_permissions():
    assert list(map(str, gang.permissions(job(gang={})))) == [
        "create podgroups.scheduling.x-k8s.io",
        "get podgroups.scheduling.x-k8s.io",
    ]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"min_available": 5}, "gang.min_available: 5 is more than the job has replicas, so none would ever start."),
        ({"scheduler": "volcano"}, "gang.scheduler: volcano keeps its groups in an API of its own"),
    ],
)
def test_a_gang_that_could_never_be_one(fields, says):
    (problem,) = gang.spec_problems(job(gang=fields))
    assert str(problem).startswith(says)


@pytest.mark.parametrize("fields", [{"min_available": 4}, {"min_available": 1}, {"scheduler": "volcano-free"}])
def test_the_limits_are_allowed(fields):
    assert gang.spec_problems(job(gang=fields)) == []


# as scheduler-plugins 0.28.9 says it
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("optimistic rejection in PostFilter", True),
        ("rejection in Unreserve", True),
        ("rejected due to timeout after waiting 10s at plugin Coscheduling", True),
        ("podGroup ml/j-1 failed recently", True),
        ("0/1 nodes are available: 1 Insufficient cpu., PodGroup ml/j-1 gets rejected due to Pod j-1-0", False),
        ("pre-filter pod j-1-0 cannot find enough sibling pods, current pods number: 1", False),
        ("", False),
    ],
)
def test_only_the_pod_that_does_not_fit_shows_a_reason(message, expected):
    assert gang.repeats_gang_failure(message) is expected
