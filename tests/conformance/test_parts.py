"""A job that consists of several objects is made whole or not at all, whatever happens on the way."""

import pytest

from tests.conformance.stories import plan
from tests.conformance.systems import SYSTEMS
from tests.conformance.verdicts import sh
from tests.conformance.world import World
from tests.support.waiting import until
from tfsteps.kube import access
from tfsteps.kube.client import Api, Resource
from tfsteps.runs.events import State
from tfsteps.systems.kubernetes.dependents import UNFINISHED

pytestmark = pytest.mark.cluster

QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota")
SERVICES = Resource("v1", "services", "Service")
ROLES = {"roles": {"chief": {}, "worker": {"replicas": 2}, "ps": {}}}
PARTS = 3  # the Service, the workers' and the parameter servers' Jobs


@pytest.fixture
def world(kubeconfig, build, tmp_path):
    jobs = next(system for system in SYSTEMS if system.name == "jobs")
    with World(jobs, Api(access.find()), "busybox:latest", tmp_path / "world") as world:
        yield world


def job(script):
    return {**ROLES, "image_pull_policy": "Never", "deadlines": {"total": "3m"}, **sh(script)}


def services(world):
    return world.api.list(SERVICES, world.namespace)["items"]


@pytest.mark.parametrize("refused", ["services", "count/jobs.batch"])
def test_nothing_is_left_where_a_part_is_refused(world, refused):
    hard = {refused: "1" if "jobs" in refused else "0"}
    world.api.create(QUOTAS, world.namespace, {"metadata": {"name": "small"}, "spec": {"hard": hard}})
    until(lambda: world.api.get(QUOTAS, world.namespace, "small").get("status", {}).get("hard"))
    launcher = world.launch(job("true"))
    assert launcher.wait() == 2
    assert "exceeded quota: small" in launcher.text()
    until(lambda: world.gone() and not services(world))


def test_what_an_interrupted_launcher_did_not_make_is_made_by_the_next_one(world):
    first, *parts = plan(world, job("[ $TFSTEPS_ROLE = chief ] || exec sleep 600; echo up"))
    assert len(parts) == PARTS
    assert UNFINISHED in first["metadata"]["annotations"]
    made = world.api.create(world.system.resource, world.namespace, first)
    owner = {**{key: made["metadata"][key] for key in ("name", "uid")}, "apiVersion": "batch/v1", "kind": "Job"}
    service = {**parts[0], "metadata": {**parts[0]["metadata"], "ownerReferences": [owner]}}
    world.api.create(SERVICES, world.namespace, service)
    launcher = world.launch(job("[ $TFSTEPS_ROLE = chief ] || exec sleep 600; echo up"))
    launcher.ends(0, State.SUCCEEDED)
    assert launcher.status.uid == made["metadata"]["uid"]
    assert len(world.job()["parts"]) == PARTS - 1
    assert UNFINISHED not in world.job()["metadata"]["annotations"]


def test_one_deletion_removes_all(world):
    launcher = world.launch({**job("exec sleep 600"), "on_end": "keep"})
    launcher.until(State.RUNNING)
    world.delete(world.job())
    launcher.ends(13, State.LOST, "Deleted")
    until(lambda: world.gone() and not services(world))


def test_made_again_while_the_garbage_of_the_last_one_is_still_there(world):
    first, *parts = plan(world, job("echo up"))
    stranger = {"apiVersion": "batch/v1", "kind": "Job", "name": first["metadata"]["name"], "uid": "00000000-0000"}
    service = {**parts[0], "metadata": {**parts[0]["metadata"], "ownerReferences": [stranger]}}
    world.api.create(SERVICES, world.namespace, service)  # its owner is gone: the garbage collector will take it
    world.launch(job("echo up")).ends(0, State.SUCCEEDED)
