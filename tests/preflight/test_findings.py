"""What a real API server, its webhooks and its quotas are known to refuse before anything is created."""

import pathlib

import pytest

from tests.preflight.conftest import namespace_of
from tests.support.waiting import until
from tfsteps import spec
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.job_kind import RoleSpec
from tfsteps.systems.kubernetes.preflight.findings import quota_violations

pytestmark = pytest.mark.cluster

QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota")
RANGES = Resource("v1", "limitranges", "LimitRange")
CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
JOB = {"name": "a", "image": "i", "command": ["true"], "roles": {"worker": {"replicas": 2}}}


@pytest.fixture(scope="module")
def namespace(cluster):
    """A namespace that allows 3 pods, each with at most 2 CPUs, and has a ConfigMap `settings` with a key `batch`."""
    with namespace_of(cluster) as namespace:
        with_rules(cluster, namespace, QUOTAS, {"hard": {"pods": "3", "count/tfjobs.kubeflow.org": "1"}})
        with_rules(cluster, namespace, RANGES, {"limits": [{"type": "Container", "max": {"cpu": "2"}}]})
        cluster.api.create(CONFIG_MAPS, namespace, {"metadata": {"name": "settings"}, "data": {"batch": ""}})
        yield namespace


def with_rules(cluster, namespace, resource, rules):
    """Create a quota or a limit range and wait until it is enforced."""
    cluster.api.create(resource, namespace, {"metadata": {"name": "team"}, "spec": rules})
    if resource is QUOTAS:
        until(lambda: "hard" in cluster.api.get(QUOTAS, namespace, "team").get("status", {}))


def start(namespace, task, fields):
    system = registry.get("kubeflow", namespace=namespace)
    job = spec.from_plain({**JOB, **fields}, "test", registry.options())
    identity = Identity(run="r", task=task)
    return system.start(job, identity, system.output_paths(job, identity, pathlib.Path()))


def patched(**fields):
    return {"pod": {"spec": fields}}


FINDINGS = {
    "Secret": ({"env": {"A": {"secret": "hub", "key": "k"}}}, "Secret {}/hub is missing: create it"),
    "ConfigMap": ({"volumes": [{"config_map": "c", "mount": "/c"}]}, "ConfigMap {}/c is missing: create it"),
    "key": ({"env": {"A": {"config_map": "settings", "key": "k"}}}, "{}/settings has no key 'k': it has batch"),
    "claim": ({"volumes": [{"pvc": "data", "mount": "/d"}]}, "PersistentVolumeClaim {}/data is missing"),
    "account": ({"service_account": "bob"}, "ServiceAccount {}/bob is missing: create it, or correct its name"),
    "priority": (patched(priorityClassName="high"), "PriorityClass high is missing: create it"),
    "unknown field": (patched(bogus=1), 'refuses the TFJob: .*unknown field "spec.tfReplicaSpecs.Worker.template'),
    "webhook": (
        patched(containers=[{"name": "tensorflow", "image": ""}]),
        "refuses the TFJob: admission webhook .*image",
    ),
    "quota": ({"roles": {"worker": {"replicas": 4}}}, "ResourceQuota team: all replicas together need 4 pods, 3 is"),
    "limit range": ({"resources": {"cpu": 3}}, "LimitRange team: a container may have at most 2 cpu, not 3"),
}


@pytest.mark.parametrize("case", FINDINGS.values(), ids=FINDINGS)
def test_findings(case, cluster, namespace):
    fields, says = case
    with pytest.raises(LaunchError, match=says.format(namespace)) as caught:
        start(namespace, "bad", fields)
    assert not caught.value.retryable
    assert cluster.api.list(TFJob.resource, namespace)["items"] == []


def test_all_at_once(namespace):
    fields = {"roles": {"worker": {"replicas": 4}}, "resources": {"cpu": 3}, "service_account": "bob"}
    with pytest.raises(LaunchError) as caught:
        start(namespace, "bad", {**fields, **patched(bogus=1)})
    order = ["(1) the cluster refuses", "(2) ServiceAccount", "(3) LimitRange", "(4) ResourceQuota"]
    places = [str(caught.value).find(item) for item in order]
    assert places[0] > 0
    assert places == sorted(places)


def test_a_namespace_that_is_not_there(cluster):
    with pytest.raises(LaunchError, match="namespace preflight-nowhere does not exist: create it"):
        start("preflight-nowhere", "bad", {})


def test_what_fits_is_created_once_and_adopted_although_the_quota_is_used_up(cluster, namespace):
    fields = {"resources": {"cpu": 2}, "systems": {"kubeflow": {"suspend": True}}}
    handle = start(namespace, "good", fields)
    try:
        assert start(namespace, "good", fields).uid == handle.uid
        with pytest.raises(LaunchError, match="exceeded quota"):
            start(namespace, "another", fields)
    finally:
        cluster.api.delete(TFJob.resource, namespace, handle.name, handle.uid)


def container(requests=None, limits=None):
    return {"name": "a", "image": "i", "resources": {"requests": requests or {}, "limits": limits or {}}}


CPU_RANGE = {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}}
RULES = {
    "quota": (
        [(QUOTAS, {"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}})],
        [
            ([container({"cpu": "1"}, {"memory": "1Gi"})], True),
            ([container({"cpu": "1001m"}, {"memory": "1Gi"})], False),
            ([container({"cpu": "1"}, {"memory": "1025Mi"})], False),
            ([container({"cpu": "1"})], False),
            ([container({}, {"cpu": "1", "memory": "1"})], True),
            ([container({"cpu": "600m"}, {"memory": "1"})] * 2, False),
        ],
    ),
    "limit range": (
        [(RANGES, {"limits": [CPU_RANGE]})],
        [
            ([container()], True),
            ([container({"cpu": "2"}, {"cpu": "2"})], True),
            ([container({"cpu": "0.099"}, {"cpu": "1"})], False),
            ([container({"cpu": "1"}, {"cpu": "2001m"})], False),
            ([container({}, {"cpu": "50m"})], False),
        ],
    ),
    "limit range of pods": (
        [(RANGES, {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]})],
        [
            ([container({"cpu": "1"}, {"cpu": "1"})] * 2, True),
            ([container({"cpu": "1"}, {"cpu": "1"})] * 3, False),
        ],
    ),
    "quota, with defaults": (
        [
            (QUOTAS, {"hard": {"requests.cpu": "1", "limits.cpu": "2"}}),
            (RANGES, {"limits": [{**CPU_RANGE, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "600m"}}]}),
        ],
        [
            ([container()], True),
            ([container(), container()], False),
            ([container({"cpu": "300m"}, {"cpu": "1"})] * 2, True),
            ([container({"cpu": "500m"})], True),
        ],
    ),
}


@pytest.mark.parametrize("case", RULES.values(), ids=RULES)
def test_the_api_server_agrees_on_what_can_never_fit(case, cluster):
    rules, rows = case
    with namespace_of(cluster) as namespace:
        for resource, rule in rules:
            with_rules(cluster, namespace, resource, rule)
        stored = [cluster.api.list(resource, namespace)["items"] for resource in (QUOTAS, RANGES)]
        for resources, fits in rows:
            containers = [{**container, "name": f"c{i}"} for i, container in enumerate(resources)]
            template = {"spec": {"containers": containers}}
            violations = list(quota_violations({"worker": RoleSpec(1, template)}, *stored))
            refused = refusal(cluster, namespace, template)
            assert (bool(violations), bool(refused)) == (not fits, not fits), (resources, violations, refused)


def refusal(cluster, namespace, template):
    try:
        cluster.api.create(PODS, namespace, {"metadata": {"name": "a"}, **template}, dry_run=True)
    except ApiError as error:
        return str(error)
    return ""
