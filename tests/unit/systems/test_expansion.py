"""References `$(NAME)`: as Kubernetes expands them, wherever a program starts; the same TF_CONFIG for one replica."""

import json

import msgspec
import pytest

from tests.support import features
from tfsteps import spec
from tfsteps.systems import registry
from tfsteps.systems.expansion import escaped, expand_program, expanded
from tfsteps.systems.roles import EXAMPLE

VARIABLES = {"A": "1", "EMPTY": "", "B.C": "2"}


def job(**fields):
    return spec.from_plain({**EXAMPLE, **fields}, "test", registry.options())


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$(A)", "1"),
        ("--a=$(A)/$(B.C)$(EMPTY)", "--a=1/2"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$$5 $5 $A ${A} $", "$5 $5 $A ${A} $"),
        ("$(NONE) $() $(A $(A)", "$(NONE) $() $(A $(A)"),
        ("$($$(A", "$($(A"),
        ("", ""),
    ],
)
def test_a_text_is_expanded_by_the_rules_of_kubernetes(text, result):
    assert expanded(text, VARIABLES) == result


@pytest.mark.parametrize("text", ["$", "$$", "$(A)", "a$$(A)$b", "plain"])
def test_an_escaped_text_stays(text):
    assert expanded(escaped(text), VARIABLES) == text


def test_a_variable_refers_to_those_before_it():
    declared = {"LATE": "$(MODEL)", "BASE": "/$(TASK)", "MODEL": "$(BASE)/m"}
    command, variables = expand_program(["p", "$(MODEL)", "$(PATH)"], {"TASK": "$(t)"}, declared)
    assert command == ["p", "/$(t)/m", "$(PATH)"]
    assert variables == {"TASK": "$(t)", "LATE": "$(MODEL)", "BASE": "/$(t)", "MODEL": "/$(t)/m"}


def test_a_local_run_expands_them(monkeypatch):
    monkeypatch.setenv("TOKEN", "$(BASE)")
    env = {"BASE": "/data", "TOKEN": {"secret": "s", "key": "k"}, "MODEL_DIR": "$(BASE)/$(TOKEN)"}
    asking = job(env=env, args=["$(MODEL_DIR)", "$(TFSTEPS_INDEX)", "$$5", "$(HOME)"])
    (replica,) = registry.get("local").plan(asking, features.IDENTITY, features.PLACES)
    assert replica["command"] == ["python", "train.py", "/data/$(BASE)", "0", "$5", "$(HOME)"]
    assert replica["env"]["MODEL_DIR"] == "/data/$(BASE)"


@pytest.mark.parametrize(
    ("system", "names"),
    [
        ("trainjob", ["TF_CONFIG", "TFSTEPS_INDEX", "TFSTEPS_ROLE", "OF_ROLE"]),
        ("tfjob-v1alpha1", ["TF_CONFIG", "TFSTEPS_INDEX"]),
        ("t9k", ["TFSTEPS_INDEX"]),
    ],
)
def test_a_reference_to_what_a_shell_sets_is_refused(system, names):
    variables = {"TASK": "$(TFSTEPS_TASK)", "OF_ROLE": "x", "INDEX": "$(TFSTEPS_INDEX)"}
    asking = job(args=[f"$({name})" for name in names], roles={"worker": {"replicas": 2, "env": variables}})
    problems = registry.get(system).spec_problems(asking)
    fields = ["args"] * len(names) + ["roles.worker.env.INDEX"]
    assert [spec.dotted(problem.path) for problem in problems] == fields
    assert {problem.value for problem in problems} == {f"$({name})" for name in names}
    assert registry.get(system).spec_problems(job(args=["$(TFSTEPS_TASK) $$(TFSTEPS_INDEX)"], env={"A": "1"})) == []


def test_folders_with_dollars_stay():
    places = msgspec.structs.replace(features.PLACES, output="/a$$b$(TFSTEPS_TASK)")
    (item, *_) = registry.get("jobs").plan(job(), features.IDENTITY, places)
    container = item["spec"]["template"]["spec"]["containers"][0]
    value = next(variable["value"] for variable in container["env"] if variable["name"] == "TFSTEPS_OUTPUT_DIR")
    assert expanded(value, {"TFSTEPS_TASK": "x"}) == places.output


def pod_env(value):
    """Yield the `env` of every container below a manifest."""
    if isinstance(value, dict):
        yield from value.get("env", []) if isinstance(value.get("env"), list) else []
        for item in value.values():
            yield from pod_env(item)
    elif isinstance(value, list):
        for item in value:
            yield from pod_env(item)


@pytest.mark.parametrize(
    ("system", "host"),
    [("local", "127.0.0.1"), ("jobs", "localhost"), ("jobset", "localhost"), ("kubeflow", "localhost")],
)
@pytest.mark.parametrize("role", ["chief", "worker"])
def test_the_only_replica_of_a_job_has_the_same_tf_config_everywhere(system, host, role):
    plan = registry.get(system).plan(job(roles={role: {}}), features.IDENTITY, features.PLACES)
    if system == "local":
        text = plan[0]["env"]["TF_CONFIG"]
    else:
        assert [item["kind"] for item in plan] == [item["kind"] for item in plan[:1]]
        (text,) = [variable["value"] for variable in pod_env(plan) if variable["name"] == "TF_CONFIG"]
    config = {"cluster": {role: [f"{host}:2222"]}, "task": {"type": role, "index": 0}, "environment": "cloud"}
    assert json.loads(expanded(text, {"TFSTEPS_INDEX": "0"})) == config
