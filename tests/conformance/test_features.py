"""Each cell of the table of capabilities: what a system has is accepted by the real API server and shown by a case.

What is refused is refused by the launcher, with the reason, before anything is created.
"""

import json

import msgspec
import pytest

from tests.conformance.environment import Environment
from tests.conformance.systems import SYSTEMS
from tests.conformance.test_job_systems import CASES
from tests.support import features
from tests.support.waiting import until
from tfsteps.kube import access
from tfsteps.kube.client import Api, Resource
from tfsteps.systems import registry
from tfsteps.systems.capabilities import FEATURES, Level

HAS = {Level.NATIVE, Level.DONE}
ELSEWHERE = {  # what no case of the table can show: where it is shown
    "gang": "tests/gang",
    "hold": "tests/kubernetes_cli",
    "queue": "test_is_accepted",  # Kueue is not on the cluster
    "priority": "test_is_accepted",
    "tensorboard": "tests/job_crds",
    "keep_for": "tests/janitor",
    "on_evicted": "tests/argo",
}


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_what_a_system_has_is_shown_by_a_case(system, feature):
    if features.level(system.name, feature) in HAS:
        shown = [case.name for case in CASES if feature in case.needs and case.fits(system)]
        assert shown or feature in ELSEWHERE


@pytest.fixture(scope="module")
def environments(kubeconfig, tmp_path_factory):
    """Return a function that gives each system a namespace."""
    made = {}

    def of(system):
        if system.name not in made:
            made[system.name] = Environment(
                system, Api(access.find()), "busybox:latest", tmp_path_factory.mktemp("w") / "w"
            )
            made[system.name].__enter__()
        return made[system.name]

    yield of
    for environment in made.values():
        environment.__exit__()


@pytest.mark.cluster
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_is_accepted_or_refused(system, feature, environments):
    environment, job = environments(system), features.job_of(system.name, feature)
    where = registry.get(system.name, namespace=environment.namespace)
    if features.level(system.name, feature) is not Level.REFUSED:
        for item in json.loads(msgspec.json.encode(where.plan(job, features.IDENTITY, features.PLACES))):
            resource = Resource(item["apiVersion"], f"{item['kind'].lower()}s", item["kind"])
            environment.api.create(resource, environment.namespace, item, dry_run=True)
        return
    if FEATURES[feature].job:
        launcher = environment.launch({**features.BASE, **FEATURES[feature].job}, task=feature)
        assert launcher.wait() == 2
        assert all(problem.wrong in launcher.text() for problem in where.problems(job))
        until(environment.gone)
