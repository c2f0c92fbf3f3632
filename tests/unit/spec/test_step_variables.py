"""The variables of a step that the replicas get; another try of the step, with other values, finds the same job."""

import pathlib

import pytest

from tests.unit.platforms.hai import test_schema as hai
from tfsteps import spec
from tfsteps.platforms.hai import schema
from tfsteps.runs.identity import Identity
from tfsteps.spec.step_inputs import STEP_VARIABLES, with_step_variables
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.system import SPEC_HASH, KubernetesSystem

PLAIN = {"name": "a", "image": "a:1", "command": ["a"], "roles": {"chief": {}, "worker": {"replicas": 2}}}
WHO = Identity(run="r", task="t")


def job(environment, **env):
    return with_step_variables(spec.from_plain({**PLAIN, "env": env}), environment)


def test_replicas_get_the_run_and_the_trace_of_their_step_but_no_credentials():
    given = {"MLFLOW_RUN_ID": "1", "TRACEPARENT": "00-a-b-01", "MLFLOW_WORKSPACE": "", "MLFLOW_TRACKING_TOKEN": "t"}
    assert job({**given, "HOME": "/root"}).env == {"MLFLOW_RUN_ID": "1", "TRACEPARENT": "00-a-b-01"}


def test_values_are_not_expanded():
    assert job({"BAGGAGE": "a=$(HOME),b=$$"}).env == {"BAGGAGE": "a=$$(HOME),b=$$$$"}


def test_a_variable_of_the_job_stays():
    assert job({"MLFLOW_RUN_ID": "1"}, MLFLOW_RUN_ID="mine", A="b").env == {"MLFLOW_RUN_ID": "mine", "A": "b"}


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.name)
def test_another_try_of_a_step_finds_its_job(kind):
    system = KubernetesSystem(kind)

    def annotations(given, **env):
        made = job(given, **env)
        return system._rendered(made, WHO, system.places(made, WHO, pathlib.Path()), "ns").annotations[SPEC_HASH]

    tries = [annotations(dict.fromkeys(STEP_VARIABLES, value)) for value in ("first", "second")]
    assert {*tries, annotations({})} == {tries[0]}
    assert annotations({}, SIZE="2") != tries[0]


def test_another_try_of_a_step_finds_its_task():
    hashes = [schema.labels(hai.rendered(env=env)["options"])[schema.SPEC_HASH] for env in ({"TRACEPARENT": "1"}, {})]
    assert hashes[0] == hashes[1]
    assert schema.labels(hai.rendered(env={"SIZE": "2"})["options"])[schema.SPEC_HASH] != hashes[0]
