"""What a step gives its job: `spec`, the settings of the task over it, the fields over both; and variables."""

import copy
import pathlib

import pytest

from tests.unit.platforms.hai import test_schema as hai
from tfsteps import spec
from tfsteps.platforms.hai import schema
from tfsteps.runs.identity import Identity
from tfsteps.spec import SpecError
from tfsteps.spec.step_inputs import STEP_VARIABLES, merged, plain_job, tensorboard_job, with_step_variables
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.system import SPEC_HASH, KubernetesSystem

SPEC = {
    "name": "under",
    "command": ["python", "train.py"],
    "args": ["--fast"],
    "env": {"A": "1", "B": "1"},
    "resources": {"cpu": 1, "memory": "1Gi"},
    "roles": {"chief": {}, "worker": {"replicas": 2, "env": {"W": "1"}}},
    "outputs": {"model": "export", "metrics": {"loss": "train/loss"}},
}


def over(**inputs):
    return plain_job({"spec": SPEC, **inputs})


@pytest.mark.parametrize(
    ("inputs", "changed"),
    [
        ({}, {}),
        ({"name": "", "command": None, "workers": None, "env": {}, "deadlines": {}, "metric_tags": {}}, {}),
        ({"name": "own"}, {"name": "own"}),
        ({"args": []}, {"args": []}),
        ({"args": ["--slow"]}, {"args": ["--slow"]}),
        ({"env": {"B": "2", "C": ""}}, {"env": {"A": "1", "B": "2", "C": ""}}),
        ({"cpu": "2"}, {"resources": {"cpu": "2", "memory": "1Gi"}}),
        ({"gpu": 0}, {"resources": {"cpu": 1, "memory": "1Gi", "gpu": 0}}),
        ({"backoff_limit": 0}, {"backoff_limit": 0}),
        ({"cluster": "far"}, {"cluster": "far"}),
        ({"cluster": ""}, {}),
        ({"workers": 3}, {"roles": {"chief": {}, "worker": {"replicas": 3, "env": {"W": "1"}}}}),
        ({"workers": 0}, {"roles": {"chief": {}}}),
        (
            {"chief": 1, "ps": 1},
            {"roles": {"chief": {"replicas": 1}, "worker": SPEC["roles"]["worker"], "ps": {"replicas": 1}}},
        ),
        ({"ps": 0}, {}),
        ({"deadlines": {"total": "1h"}}, {"deadlines": {"total": "1h"}}),
        (
            {"metric_tags": {"accuracy": "eval/accuracy"}},
            {"outputs": {"model": "export", "metrics": {"loss": "train/loss", "accuracy": "eval/accuracy"}}},
        ),
        ({"data": "/data", "system": "local", "run_id": "r", "task_config": {}}, {}),
    ],
)
def test_inputs_over_spec(inputs, changed):
    before = copy.deepcopy(SPEC)
    job = over(**inputs)
    assert job == {**SPEC, **changed}
    assert before == SPEC
    spec.from_plain(job, "inputs")


def test_without_a_spec():
    job = plain_job({"name": "own", "command": ["true"], "workers": 2.0})
    assert job == {"name": "own", "command": ["true"], "roles": {"worker": {"replicas": 2.0}}}


def test_the_task_lies_between():
    base = {"resources": {"cpu": "4", "memory": "4Gi"}, "node_selector": {"disk": "ssd"}}
    job = plain_job({"spec": SPEC, "memory": "8Gi"}, base)
    assert job["resources"] == {"cpu": "4", "memory": "8Gi"}
    assert job["node_selector"] == {"disk": "ssd"}


@pytest.mark.parametrize(
    ("under", "upper", "both"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1, "y": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1}}, {"a": 0}, {"a": 0}),
        ({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"env": {"A": {"secret": "s", "key": "k"}}}, {"env": {"A": {"field": "f"}}}, {"env": {"A": {"field": "f"}}}),
    ],
)
def test_merged(under, upper, both):
    assert merged(under, upper) == both


CLAIM = {"mount": "/data", "pvc": "datasets"}
GPU = {"key": "gpu", "operator": "Exists"}
TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(*zones):
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}]
    return {"spec": {"affinity": {"nodeAffinity": {TERMS: {"nodeSelectorTerms": terms}}}}}


@pytest.mark.parametrize(
    ("field", "in_spec", "on_task", "both"),
    [
        ("volumes", [CLAIM], [{"mount": "/out", "pvc": "out"}], [CLAIM, {"mount": "/out", "pvc": "out"}]),
        ("volumes", [CLAIM], [CLAIM], [CLAIM]),
        ("volumes", [CLAIM], [{**CLAIM, "mount": "/data/", "read_only": False}], [CLAIM]),
        ("volumes", [], [CLAIM], [CLAIM]),
        ("tolerations", [GPU], [{"key": "spot", "value": "yes"}], [GPU, {"key": "spot", "value": "yes"}]),
        ("tolerations", [{"key": "a", "value": "b"}], [{"key": "a", "operator": "Equal", "value": "b"}], None),
        ("pod", affinity("a"), affinity("a"), affinity("a")),
        (
            "pod",
            {"spec": {"hostNetwork": True}},
            affinity("a"),
            {"spec": {"hostNetwork": True, **affinity("a")["spec"]}},
        ),
    ],
)
def test_lists_of_the_task_are_added_to_those_of_spec(field, in_spec, on_task, both):
    job = plain_job({"spec": {**SPEC, field: in_spec}}, {field: on_task})
    assert job[field] == (in_spec if both is None else both)
    spec.from_plain(job, "inputs")


@pytest.mark.parametrize(
    ("field", "in_spec", "on_task", "named"),
    [
        ("volumes", [CLAIM], [{**CLAIM, "pvc": "other"}], r"task_config\.volumes\./data: is set on the task"),
        ("volumes", [CLAIM], [{**CLAIM, "read_only": True}], r"task_config\.volumes\./data"),
        ("tolerations", [{**GPU, "seconds": 5}], [{**GPU, "seconds": 9}], r"task_config\.tolerations\.gpu"),
        ("pod", affinity("a"), affinity("b"), r"task_config\.pod.*nodeSelectorTerms.*Set it in one place"),
    ],
)
def test_a_list_entry_with_other_content_is_refused(field, in_spec, on_task, named):
    with pytest.raises(SpecError, match=named):
        plain_job({"spec": {**SPEC, field: in_spec}}, {field: on_task})


def test_every_conflict_is_reported():
    under = {**SPEC, "volumes": [CLAIM, {"mount": "/out", "pvc": "out"}]}
    over = {"volumes": [{**CLAIM, "pvc": "a"}, {"mount": "/out", "pvc": "b"}]}
    with pytest.raises(SpecError) as caught:
        plain_job({"spec": under}, over)
    assert [problem.path[-1] for problem in caught.value.problems] == ["/data", "/out"]


@pytest.mark.parametrize("volumes", ["/data", ["/data"], [{"pvc": "x"}], {"mount": "/data"}])
def test_what_is_no_list_of_volumes_is_refused(volumes):
    with pytest.raises(SpecError, match="volumes"):
        spec.from_plain(plain_job({"spec": {**SPEC, "volumes": volumes}}, {"volumes": [CLAIM]}), "inputs")


PLAIN = {"name": "a", "image": "a:1", "command": ["a"], "roles": {"chief": {}, "worker": {"replicas": 2}}}
WHO = Identity(run="r", task="t")


def job(environment, **env):
    return with_step_variables(spec.from_plain({**PLAIN, "env": env}), environment)


def test_replicas_get_the_run_and_the_trace_of_their_step_but_no_credentials():
    fields = {"MLFLOW_RUN_ID": "1", "TRACEPARENT": "00-a-b-01", "MLFLOW_WORKSPACE": "", "MLFLOW_TRACKING_TOKEN": "t"}
    assert job({**fields, "HOME": "/root"}).env == {"MLFLOW_RUN_ID": "1", "TRACEPARENT": "00-a-b-01"}


def test_values_are_not_expanded():
    assert job({"BAGGAGE": "a=$(HOME),b=$$"}).env == {"BAGGAGE": "a=$$(HOME),b=$$$$"}


def test_a_variable_of_the_job_stays():
    assert job({"MLFLOW_RUN_ID": "1"}, MLFLOW_RUN_ID="mine", A="b").env == {"MLFLOW_RUN_ID": "mine", "A": "b"}


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.name)
def test_another_try_of_a_step_finds_its_job(kind):
    system = KubernetesSystem(kind)

    def annotations(fields, **env):
        training_job = job(fields, **env)
        return system._rendered(
            training_job, WHO, system.output_paths(training_job, WHO, pathlib.Path()), "ns"
        ).annotations[SPEC_HASH]

    tries = [annotations(dict.fromkeys(STEP_VARIABLES, value)) for value in ("first", "second")]
    assert {*tries, annotations({})} == {tries[0]}
    assert annotations({}, SIZE="2") != tries[0]


def test_another_try_of_a_step_finds_its_task():
    hashes = [schema.labels(hai.rendered(env=env)["options"])[schema.SPEC_HASH] for env in ({"TRACEPARENT": "1"}, {})]
    assert hashes[0] == hashes[1]
    assert schema.labels(hai.rendered(env={"SIZE": "2"})["options"])[schema.SPEC_HASH] != hashes[0]


def test_problems_of_a_tensorboard_are_named_by_its_inputs():
    inputs = {"spec": {"volumes": [{"pvc": "data", "name": "x"}]}, "image": "a b", "log_dir": "/data"}
    with pytest.raises(SpecError) as refused:
        tensorboard_job(inputs)
    places = {str(problem).partition(": ")[0] for problem in refused.value.problems}
    assert {"spec.volumes[0].mount", "spec.volumes[0].name", "image"} <= places
