"""What can never fit a namespace's quotas and limit ranges. tests/preflight asks a real API server the same."""

from decimal import Decimal

import pytest

from tfsteps.spec.types import ROLES
from tfsteps.systems.kubernetes.job_kind import RoleSpec
from tfsteps.systems.kubernetes.preflight.findings import quantity, quota_violations


def role(replicas, *containers, partial=False):
    template = {"spec": {"containers": [{"resources": container} for container in containers]}}
    return RoleSpec(replicas, template, partial)


def named(roles):
    return dict(zip(ROLES, roles, strict=False))


def asks(**requests):
    return {"requests": requests}


def quota(hard, **scope):
    return {"metadata": {"name": "team"}, "spec": {"hard": hard, **scope}}


def limit_range(kind="Container", **rule):
    return {"metadata": {"name": "sizes"}, "spec": {"limits": [{"type": kind, **rule}]}}


@pytest.mark.parametrize(
    ("text", "number"),
    {
        "2": "2",
        "+2": "2",
        "0.1": "0.1",
        "500m": "0.5",
        "100n": "1e-7",
        "4Gi": str(4 * 2**30),
        "1k": "1000",
        "1e3": "1000",
        "1E3": "1000",
        "1E": str(10**18),
        "1Ei": str(2**60),
    }.items(),
)
def test_quantities(text, number):
    assert quantity(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "2mm"])
def test_what_is_no_quantity(text):
    with pytest.raises(ValueError, match="not a quantity"):
        quantity(text)


DEFAULTS = limit_range(defaultRequest={"memory": "1"})

FITS = {
    "no rules at all": ([role(100, asks(cpu="64"))], [], []),
    "just as much as allowed": ([role(3, asks(cpu="100m"))], [quota({"requests.cpu": "300m"})], []),
    "tenths do not add up to more": ([role(3, asks(cpu="0.1"))], [quota({"requests.cpu": "0.3"})], []),
    "a quota with a scope": ([role(9, asks(cpu="1"))], [quota({"pods": "1"}, scopes=["BestEffort"])], []),
    "what a quota counts, from a default": (
        [role(1, {})],
        [quota({"requests.cpu": "1", "limits.cpu": "1"})],
        [limit_range(default={"cpu": "1"}, defaultRequest={"cpu": "500m"})],
    ),
    "a request is its limit where it is not given": (
        [role(1, {"limits": {"cpu": "1"}})],
        [quota({"requests.cpu": "1"})],
        [limit_range(min={"cpu": "1"}, defaultRequest={"cpu": "100m"})],
    ),
    "the quota of something else": ([role(9, asks(cpu="1"))], [quota({"services": "1", "count/secrets": "1"})], []),
    "just the maximum and the minimum": (
        [role(1, asks(cpu="2"))],
        [],
        [limit_range(max={"cpu": "2"}, min={"cpu": "2"})],
    ),
    "what is no quantity": ([role(1, asks(cpu="much"))], [quota({"requests.memory": "1"})], [DEFAULTS]),
    "what a runtime may set": (
        [role(1, {}, partial=True), role(1, asks(cpu="1"), partial=True)],
        [quota({"limits.cpu": "1", "requests.memory": "1"})],
        [limit_range(min={"cpu": "2"}, default={"cpu": "3"}, defaultRequest={"memory": "2"})],
    ),
    "no containers": ([role(1)], [quota({"cpu": "1"})], [limit_range("Pod", min={"cpu": "1"})]),
    "a limit range of claims": ([role(1, asks(cpu="1"))], [], [limit_range("PersistentVolumeClaim", max={"cpu": "0"})]),
}


@pytest.mark.parametrize("case", FITS.values(), ids=FITS)
def test_what_fits(case):
    roles, quotas, ranges = case
    assert list(quota_violations(named(roles), quotas, ranges)) == []


VIOLATIONS = {
    "pods": ([role(2), role(2)], [quota({"pods": "3"})], [], "all replicas together need 4 pods, 3 is allowed"),
    "pods by count": ([role(2)], [quota({"count/pods": "1"})], [], "need 2 count/pods, 1 is allowed"),
    "CPU": ([role(2, asks(cpu="2"))], [quota({"cpu": "3"})], [], "need 4 cpu, 3 is allowed"),
    "requested CPU": ([role(2, asks(cpu="1500m"))], [quota({"requests.cpu": "2"})], [], "need 3 requests.cpu"),
    "limits": (
        [role(2, {"limits": {"memory": "1Gi"}})],
        [quota({"limits.memory": "1Gi"})],
        [],
        "need 2Gi limits.memory, 1Gi is",
    ),
    "a request that is its limit": (
        [role(2, {"limits": {"cpu": "1"}})],
        [quota({"requests.cpu": "1"})],
        [],
        "need 2 req",
    ),
    "GPUs": (
        [role(2, {"limits": {"nvidia.com/gpu": "1"}})],
        [quota({"requests.nvidia.com/gpu": "1"})],
        [],
        "need 2 requests.nvidia.com/gpu",
    ),
    "sidecars count": ([role(1, asks(cpu="1"), asks(cpu="1"))], [quota({"cpu": "1"})], [], "need 2 cpu"),
    "nothing said": (
        [role(1, {})],
        [quota({"requests.memory": "1Gi"})],
        [],
        "counts requests.memory, and chief has none",
    ),
    "one of two says nothing": (
        [role(1, asks(cpu="1"), {})],
        [quota({"cpu": "9"})],
        [],
        "counts cpu, and chief has none",
    ),
    "above a maximum": ([role(1, asks(cpu="3"))], [], [limit_range(max={"cpu": "2"})], "at most 2 cpu, not 3"),
    "limit above a maximum": ([role(1, {"limits": {"cpu": "3"}})], [], [limit_range(max={"cpu": "2"})], "not 3"),
    "below a minimum": ([role(1, asks(cpu="1"))], [], [limit_range(min={"cpu": "2"})], "at least 2 cpu, not 1"),
    "a pod above a maximum": (
        [role(1, asks(cpu="1"), asks(cpu="2"))],
        [],
        [limit_range("Pod", max={"cpu": "2"})],
        "a pod may have at most 2 cpu, not 3",
    ),
    "beside a runtime, more than the quota": (
        [role(2, asks(cpu="2"), partial=True)],
        [quota({"cpu": "3"})],
        [],
        "need 4 cpu, 3 is allowed",
    ),
    "a default beyond the quota": (
        [role(2, {})],
        [quota({"limits.cpu": "1"})],
        [limit_range(default={"cpu": "1"})],
        "need 2 limits.cpu, 1 is allowed",
    ),
}


@pytest.mark.parametrize("case", VIOLATIONS.values(), ids=VIOLATIONS)
def test_what_never_fits(case):
    roles, quotas, ranges, says = case
    (violation,) = quota_violations(named(roles), quotas, ranges)
    assert says in violation
    assert violation.startswith("ResourceQuota team: " if quotas else "LimitRange sizes: ")


def test_each_role_is_named():
    violations = list(
        quota_violations({"chief": role(1, asks(cpu="3")), "worker": role(1)}, [], [limit_range(max={"cpu": "2"})])
    )
    assert violations == [
        "LimitRange sizes: a container may have at most 2 cpu, not 3: correct the `resources` of chief"
    ]
