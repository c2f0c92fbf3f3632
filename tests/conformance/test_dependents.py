"""A job that consists of several objects is made whole or not at all, whatever happens on the way."""

import pytest

from tests.conformance.environment import Environment
from tests.conformance.scenarios import plan
from tests.conformance.systems import SYSTEMS
from tests.conformance.verdicts import sh
from tests.support.waiting import until
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.resource import Resource
from tfsteps.runs.events import State
from tfsteps.systems.kubernetes.dependents import UNFINISHED
from tfsteps.systems.kubernetes.job_kind import DEPENDENTS

pytestmark = pytest.mark.cluster

QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota")
SERVICES = Resource("v1", "services", "Service")
ROLES = {"roles": {"chief": {}, "worker": {"replicas": 2}, "ps": {}}}
PARTS = 3  # the Service, the workers' and the parameter servers' Jobs


@pytest.fixture
def environment(kubeconfig, build, tmp_path):
    jobs = next(system for system in SYSTEMS if system.name == "jobs")
    with Environment(jobs, Api(access.find()), "busybox:latest", tmp_path / "environment") as environment:
        yield environment


def job(script):
    return {**ROLES, "image_pull_policy": "Never", "deadlines": {"total": "3m"}, **sh(script)}


def services(environment):
    return environment.api.list(SERVICES, environment.namespace)["items"]


@pytest.mark.parametrize("refused", ["services", "count/jobs.batch"])
def test_nothing_is_left_where_a_part_is_refused(environment, refused):
    hard = {refused: "1" if "jobs" in refused else "0"}
    environment.api.create(QUOTAS, environment.namespace, {"metadata": {"name": "small"}, "spec": {"hard": hard}})
    until(lambda: environment.api.get(QUOTAS, environment.namespace, "small").get("status", {}).get("hard"))
    launcher = environment.launch(job("true"))
    assert launcher.wait() == 2
    assert "exceeded quota: small" in launcher.text()
    until(lambda: environment.gone() and not services(environment))


def test_what_an_interrupted_launcher_did_not_make_is_made_by_the_next_one(environment):
    first, *parts = plan(environment, job("[ $TFSTEPS_ROLE = chief ] || exec sleep 600; echo up"))
    assert len(parts) == PARTS
    assert UNFINISHED in first["metadata"]["annotations"]
    created = environment.api.create(environment.system.resource, environment.namespace, first)
    owner = {**{key: created["metadata"][key] for key in ("name", "uid")}, "apiVersion": "batch/v1", "kind": "Job"}
    service = {**parts[0], "metadata": {**parts[0]["metadata"], "ownerReferences": [owner]}}
    environment.api.create(SERVICES, environment.namespace, service)
    launcher = environment.launch(job("[ $TFSTEPS_ROLE = chief ] || exec sleep 600; echo up"))
    launcher.ends(0, State.SUCCEEDED)
    assert launcher.status.uid == created["metadata"]["uid"]
    assert len(environment.job()[DEPENDENTS]) == PARTS - 1
    assert UNFINISHED not in environment.job()["metadata"]["annotations"]


def test_one_deletion_removes_all(environment):
    launcher = environment.launch({**job("exec sleep 600"), "on_end": "keep"})
    launcher.until(State.RUNNING)
    environment.delete(environment.job())
    launcher.ends(13, State.LOST, "Deleted")
    until(lambda: environment.gone() and not services(environment))


def test_made_again_while_the_garbage_of_the_last_one_is_still_there(environment):
    first, *parts = plan(environment, job("echo up"))
    stranger = {"apiVersion": "batch/v1", "kind": "Job", "name": first["metadata"]["name"], "uid": "00000000-0000"}
    service = {**parts[0], "metadata": {**parts[0]["metadata"], "ownerReferences": [stranger]}}
    environment.api.create(
        SERVICES, environment.namespace, service
    )  # its owner is gone: the garbage collector will take it
    environment.launch(job("echo up")).ends(0, State.SUCCEEDED)
