"""Capabilities are what a job is checked by: on every job system, those of packages outside tfsteps, too."""

import pytest

from tests.support import features
from tfsteps import spec
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import Access
from tfsteps.systems import capabilities, registry
from tfsteps.systems.base import OnCluster
from tfsteps.systems.capabilities import Level, refused, unused
from tfsteps.systems.features import FEATURES, FieldUses, Use
from tfsteps.systems.kubernetes.job_cluster import JobCluster
from tfsteps.systems.roles import EXAMPLE

BY_DEFAULT = {"worker", "restart_never", "success_chief"}  # a job with nothing but a worker asks for these
EXAMPLES = [name for name, feature in FEATURES.items() if feature.job]


def job(**more):
    return spec.from_plain({**EXAMPLE, **more}, "test", registry.options())


def uses_feature(uses, **more):
    return [spec.dotted(use.path) for use in uses(job(**more))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_feature_is_found_in_its_example_and_not_without_it(name):
    feature = FEATURES[name]
    assert uses_feature(feature.uses, **feature.job)
    assert bool(uses_feature(feature.uses)) is (name in BY_DEFAULT)


@pytest.mark.parametrize("system", registry.plugins())
def test_every_feature_is_answered(system):
    assert registry.capabilities_of(system).keys() == FEATURES.keys()


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("system", registry.plugins())
def test_a_job_system_behaves_as_its_capability_declares(system, feature, monkeypatch):
    for variable in ("TOKEN", "MODE", "NODE"):  # of the example: a local run would take it from here
        monkeypatch.delenv(variable, raising=False)
    capability, asking = registry.capabilities_of(system)[feature], features.job_of(system, feature)
    problems = [problem for problem in registry.get(system).spec_problems(asking) if capability.note in problem.wrong]
    warnings = [warning for warning in registry.get(system).warnings(asking) if capability.note in warning]
    asked = feature in EXAMPLES
    assert bool(problems) is (asked and capability.level is Level.REFUSED)
    assert bool(warnings) is (asked and capability.level is Level.UNUSED)
    assert all(problem.fix == capability.fix != "" for problem in problems)
    if capability.level in (Level.NATIVE, Level.DONE):
        assert registry.get(system).spec_problems(asking) == []


@pytest.mark.parametrize("system", registry.on_kubernetes())
def test_a_job_system_on_kubernetes_is_moved_to_the_cluster_of_a_job(system):
    home = Api(Access("http://127.0.0.1:1", "there", None, str, "elsewhere"))
    on_cluster = registry.get(system, namespace="here")
    assert isinstance(on_cluster, OnCluster)
    on_cluster.cluster = cluster = JobCluster(home=home)
    assert on_cluster.cluster is cluster
    several = len(registry.kinds_of(system)) > 1  # of which the option `api` chooses one
    for kind in registry.kinds_of(system):
        options = {"api": kind.resource.api.partition("/")[0]} if several else {}
        assert on_cluster.attach(job(systems={system: options}), "job", "uid", 0.0).namespace == "there"


def test_a_refusal_names_the_field_its_value_the_reason_and_what_to_do():
    table = dict.fromkeys(FEATURES, capabilities.native(""))
    table["gpu"] = refused("a toy has no GPU", "Remove it")
    asking = job(resources={"gpu": 2}, roles={"worker": {"resources": {"gpu": 1}}, "chief": {}})
    assert [str(problem) for problem in capabilities.spec_problems(asking, table)] == [
        "resources.gpu: 2 is not supported: a toy has no GPU. Remove it.",
        "roles.worker.resources.gpu: 1 is not supported: a toy has no GPU. Remove it.",
    ]


def test_a_warning_names_all_fields_that_a_reason_holds_for():
    table = dict.fromkeys(FEATURES, capabilities.native(""))
    table |= {"volumes": unused("there is no pod"), "queue": unused("nothing waits", "Start it later")}
    table |= {"pod_patch": unused("there is no pod")}
    asking = job(pod={"spec": {}}, queue="research", roles={"worker": {"volumes": [{"pvc": "a", "mount": "/a"}]}})
    assert capabilities.warnings(asking, table) == [
        "`roles.worker.volumes`, `pod` have no effect: there is no pod.",
        "`queue` has no effect: nothing waits. Start it later.",
    ]


def test_a_job_system_can_refuse_some_uses_of_a_feature():
    table = dict.fromkeys(FEATURES, capabilities.native(""))
    table["priority"] = refused(
        "it is too high", "Write at most 9", lambda job: [Use(("priority",))][: job.priority > 9]
    )
    assert capabilities.spec_problems(job(priority=9), table) == []
    assert [problem.path for problem in capabilities.spec_problems(job(priority=10), table)] == [("priority",)]


@pytest.mark.parametrize(
    ("uses", "more", "paths"),
    [
        (FieldUses(["priority"]), {"priority": 0}, ["priority"]),
        (FieldUses(["deadlines"]), {"deadlines": {"total": "7d"}}, []),
        (FieldUses(["resources.gpu"]), {"resources": {"gpu": 0}, "roles": {"worker": {"resources": {"gpu": 0}}}}, []),
        (FieldUses(["resources.limits.cpu"]), {"resources": {"limits": {"cpu": 2}}}, ["resources.limits.cpu"]),
        (FieldUses(["backoff_limit"], of_job=False), {"restart": "always", "backoff_limit": 1}, []),
        (FieldUses(["backoff_limit"], of_roles=False), {"restart": "always", "roles": {"worker": {"backoff_limit": 1}}},
         []),
        (
            FEATURES["restart_always"].uses,
            {"restart": "always", "roles": {"chief": {}, "worker": {}, "evaluator": {"restart": "always"}}},
            ["restart", "roles.evaluator.restart"],
        ),
        (FEATURES["restart_always"].uses, {"restart": "always", "roles": {"worker": {"restart": "never"}}}, []),
        (FEATURES["entrypoint"].uses, {"command": [], "roles": {"chief": {"command": ["a"]}, "worker": {}}},
         ["roles.worker.command"]),
    ],
)  # fmt: skip
def test_what_asks_for_a_feature(uses, more, paths):
    assert uses_feature(uses, **more) == paths
