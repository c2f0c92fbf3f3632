"""Each cell of the table of capabilities: what a system has is accepted by the real API server and shown by a case.

What is refused is refused by the launcher, with the reason, before anything is created.
"""

import json

import msgspec
import pytest

from tests.conformance.environment import Environment
from tests.conformance.systems import SYSTEMS
from tests.conformance.test_job_systems import CASES
from tests.hai import cases as hai
from tests.support import features
from tests.support.shown import shown
from tests.support.waiting import until
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.resource import Resource
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.capabilities import Level
from tfsteps.systems.features import FEATURES
from tfsteps.systems.kubernetes.job_kind import RenderedJob, create
from tfsteps.systems.roles import EXAMPLE

HAS = {Level.NATIVE, Level.DONE}


def test_every_job_system_on_kubernetes_is_tested():
    assert sorted(system.name for system in SYSTEMS) == sorted(registry.on_kubernetes())


def by_cases(name):
    """Return the features that the table of cases shows on a job system."""
    if name == "hai":
        return set().union(*(case.needs for case in hai.CASES.values()))
    rows = [system for system in SYSTEMS if system.name == name]
    return {feature for system in rows for case in CASES if case.fits(system) for feature in case.needs}


@pytest.mark.parametrize(("system", "feature"), features.CELLS)
def test_what_a_system_has_is_shown(system, feature):
    if features.level(system, feature) in HAS:
        marked = (system, feature) in shown()
        assert marked or feature in by_cases(system), "add a case, or mark the test that shows it: `shows`"


@pytest.fixture(scope="module")
def environments(kubeconfig, tmp_path_factory):
    """Return a function that gives each system a namespace."""
    environments_by_name = {}

    def of(system):
        if system.name not in environments_by_name:
            environments_by_name[system.name] = Environment(
                system, Api(access.find()), "busybox:latest", tmp_path_factory.mktemp("w") / "w"
            )
            environments_by_name[system.name].__enter__()
        return environments_by_name[system.name]

    yield of
    for environment in environments_by_name.values():
        environment.__exit__()


def lacking(environment, job, item):
    """Return why the cluster's version of a system cannot express a job; empty = its API server accepts the object."""
    try:
        create(environment.api, environment.system.kind, job, RenderedJob(item), dry_run=True)
    except LaunchError as error:
        return str(error)
    return ""


@pytest.mark.shows("queue priority")  # nothing on the cluster queues; what is accepted is all that can be shown
@pytest.mark.cluster
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_is_accepted_or_refused(system, feature, environments):
    environment, job = environments(system), features.job_of(system.name, feature)
    where = registry.get(system.name, namespace=environment.namespace)
    if features.level(system.name, feature) is not Level.REFUSED:
        item, *dependents = json.loads(msgspec.json.encode(where.plan(job, features.IDENTITY, features.PLACES)))
        if too_old := lacking(environment, job, item):
            launcher = environment.launch({**EXAMPLE, **FEATURES[feature].job}, task=feature)
            assert launcher.wait() == 2
            assert too_old in launcher.text()
        for dependent in dependents:
            resource = Resource(dependent["apiVersion"], f"{dependent['kind'].lower()}s", dependent["kind"])
            environment.api.create(resource, environment.namespace, dependent, dry_run=True)
        return
    if FEATURES[feature].job:
        launcher = environment.launch({**EXAMPLE, **FEATURES[feature].job}, task=feature)
        assert launcher.wait() == 2
        assert all(problem.wrong in launcher.text() for problem in where.spec_problems(job))
        until(environment.gone)
