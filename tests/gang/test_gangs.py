"""Gangs on a real cluster with scheduler-plugins: all replicas of a job start, or none does."""

import re
import time
from collections import Counter

import pytest

from tests.conformance.systems import SYSTEMS
from tests.gang.conftest import IMAGE, SLOT, SLOTS
from tests.support.waiting import until
from tfsteps.runs.events import State
from tfsteps.systems.kubernetes.render.gang import POD_GROUPS

pytestmark = pytest.mark.cluster
ONE = pytest.mark.parametrize(
    "environment", [row for row in SYSTEMS if row.name == "kubeflow"], indirect=True, ids=["kubeflow"]
)
"""Marks what the scheduler alone does, by a PodGroup that is the same for all job systems."""
QUICK, LONG = "sleep 2", "trap 'exit 0' TERM; sleep 600 & wait"
_LOOK_SECONDS = 6.0  # several tries of the scheduler


def job(workers, code=QUICK, slots=1, **more):
    """Return a job whose workers take some slots each."""
    limits = {"limits": {SLOT: slots}}
    return {
        "image": IMAGE,
        "image_pull_policy": "Never",
        "command": ["sh", "-c", code],
        "roles": {"worker": {"replicas": workers}},
        "pod": {"spec": {"containers": [{"name": "tensorflow", "resources": limits}]}},
        **more,
    }


def placed(environment, run):
    """Return how many of a run's pods have a node, and how many there are."""
    pods = [pod for pod in environment.pods() if pod["metadata"]["labels"]["tfsteps.dev/run-id"] == run]
    return sum("nodeName" in pod["spec"] for pod in pods), len(pods)


def holding(environment):
    """Return the runs that hold slots, without those that end: beside the last pod of one the other gang has room."""
    held, ended = Counter(), Counter()
    for pod in environment.pods(leaving=True):
        if "nodeName" in pod["spec"]:
            stays = pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
            counted = held if stays else ended
            counted[pod["metadata"]["labels"]["tfsteps.dev/run-id"]] += 1
    return {run for run in held if ended[run] < 2}


def taken(environment, run):
    environment.launch(job(1, LONG, slots=2), run=run, home=run)
    until(lambda: placed(environment, run) == (1, 1))


def remove(environment, run):
    for item in environment.jobs():
        if item["metadata"]["labels"]["tfsteps.dev/run-id"] == run:
            environment.delete(item)


def waits(environment, run, count):
    """See that none of a gang's pods is placed in several tries of the scheduler."""
    until(lambda: placed(environment, run)[1] == count)
    begun = time.monotonic()
    while time.monotonic() - begun < _LOOK_SECONDS:
        assert placed(environment, run) == (0, count)
        time.sleep(0.2)


@pytest.mark.shows("gang", "kubeflow jobset jobs")
def test_a_gang_that_does_not_fit_starts_none_until_there_is_room_and_goes_with_its_group(environment):
    taken(environment, "blocker")
    gang = environment.launch(job(3, LONG, gang={}), run="gang", home="gang")
    waits(environment, "gang", 3)
    gang.until(State.PENDING)
    until(lambda: re.match(r"worker-\d: .*Insufficient tfsteps.dev/slot", gang.status.message))

    remove(environment, "blocker")
    until(lambda: placed(environment, "gang") == (3, 3))
    gang.until(State.RUNNING)

    (group,) = environment.api.list(POD_GROUPS, environment.namespace)["items"]
    (created_job,) = [item for item in environment.jobs() if item["metadata"]["labels"]["tfsteps.dev/run-id"] == "gang"]
    assert (group["metadata"]["name"], group["spec"]["minMember"]) == (created_job["metadata"]["name"], 3)
    remove(environment, "gang")
    until(lambda: not environment.api.list(POD_GROUPS, environment.namespace)["items"])


@ONE
def test_of_a_job_that_is_no_gang_as_many_start_as_fit(environment):
    environment.launch(job(5, LONG), run="alone", home="alone")
    until(lambda: placed(environment, "alone") == (SLOTS, 5))


@ONE
def test_two_gangs_that_each_need_more_than_half_do_not_block_one_another(environment):
    assert SLOTS == 4
    gangs = [environment.launch(job(3, gang={"timeout": "5s"}), run=run, home=run) for run in ("a", "b")]
    while any(gang.process.poll() is None for gang in gangs):
        assert len(holding(environment)) < 2, "never a part of both"
        time.sleep(0.1)
    for gang in gangs:
        gang.ends(0, State.SUCCEEDED)


@ONE
def test_some_of_the_replicas_may_be_enough(environment):
    gang = environment.launch(job(5, LONG, gang={"min_available": 4}), run="gang", home="gang")
    until(lambda: placed(environment, "gang") == (4, 5))
    gang.until(State.PENDING)


@pytest.mark.disruptive
@ONE
def test_an_operator_that_makes_the_groups_itself(gang_operator, environment):
    taken(environment, "blocker")
    # An operator that missed the creation of a pod looks at the job again 5 minutes later.
    gang = environment.launch(job(4, gang={"min_available": 3}, deadlines={"total": "8m"}), run="gang", home="gang")
    waits(environment, "gang", 4)
    groups = environment.api.list(POD_GROUPS, environment.namespace)["items"]
    assert sorted(group["spec"]["minMember"] for group in groups) == [1, 3], "this operator's jobs are all gangs"
    remove(environment, "blocker")
    gang.ends(0, State.SUCCEEDED)
