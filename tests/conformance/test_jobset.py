"""Restarts of all replicas together, which JobSet alone has."""

import pytest

from tests.conformance.environment import Environment
from tests.conformance.systems import SYSTEMS
from tests.conformance.verdicts import SHARED, sh
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.runs.events import State
from tfsteps.runs.identity import new_run_id

pytestmark = pytest.mark.cluster

TOGETHER = {
    "image_pull_policy": "Never",
    "roles": {"worker": {"replicas": 2}},
    "restart": "on_failure",
    "backoff_limit": 1,
    "systems": {"jobset": {"restart_together": True}},
    "pod": {"spec": {"terminationGracePeriodSeconds": 1}},
}
FOLDER = "/shared/tfsteps-conformance/$TFSTEPS_RUN_ID"
FAILS = f"sleep 1; [ $TFSTEPS_INDEX = 1 ] || sleep 600; mkdir -p {FOLDER}; touch {FOLDER}/failed; exit 7"


@pytest.fixture
def environment(kubeconfig, build, tmp_path):
    jobset = next(system for system in SYSTEMS if system.name == "jobset")
    with Environment(jobset, Api(access.find()), "busybox:latest", tmp_path / "environment") as environment:
        yield environment


@pytest.mark.parametrize("recovers", [True, False])
def test_replicas_that_restart_together_count_one_restart(environment, recovers):
    """One failure restarts both pods, and the limit of one restart allows that once."""
    script = f"[ -e {FOLDER}/failed ] || {{ {FAILS}; }}" if recovers else FAILS
    launcher = environment.launch({**TOGETHER, "volumes": SHARED, **sh(script)}, run=new_run_id())
    if recovers:
        launcher.ends(0, State.SUCCEEDED)
    else:
        launcher.ends(10, State.FAILED, "BackoffLimitExceeded")
    assert environment.job()["status"]["restartsCountTowardsMax"] == 1
    assert {replica.restarts for replica in launcher.status.replicas} == {1}
