"""Inputs of our own steps are checked by lint as the launcher checks them; what only the run knows is no problem."""

# ruff: noqa: B006, UP045  as authors of pipelines write, and kfp reads, signatures

import re
from typing import Optional

import pytest
from kfp import dsl, kubernetes

from tests.support.kfp_compiler import compiled
from tfsteps.engines.kfp import step_rules
from tfsteps.engines.kfp.lint import lint_messages, local_lint_messages, warnings
from tfsteps.kfp import cleanup, evaluate_gate, launch, train, train_and_finalize, wait
from tfsteps.steps.evaluate_gate import launcher as gate

GOOD = {"name": "mnist", "image": "mnist:1", "command": ["python", "train.py"], "workers": 2}


def without(*names):
    return {name: value for name, value in GOOD.items() if name not in names}


@pytest.mark.parametrize("step", [train, launch, train_and_finalize])
def test_a_good_job(step, tmp_path):
    text = compiled(lambda: step(**GOOD), tmp_path)
    assert lint_messages(text) == []
    assert warnings(text) == []


@pytest.mark.parametrize("step", [train, launch, train_and_finalize])
@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        (without("name"), "name: is missing"),
        (without("workers"), "roles: is missing. Set `workers`, `chief` or both."),
        ({**GOOD, "ps": 1}, "ps: needs a chief: TensorFlow 2's parameter servers hang without one. Set `chief`, or"),
        ({**GOOD, "name": "My job"}, "name: 'My job'"),
        ({**GOOD, "cpu": "two"}, "cpu: 'two' is not an amount of CPU"),
        ({**GOOD, "deadlines": {"total": "3q"}}, "deadlines.total: '3q' is not a duration"),
        ({**GOOD, "deadlines": {"totla": "3h"}}, "deadlines.totla"),
        ({**GOOD, "restart": "nope"}, "restart: 'nope' is not one of the choices"),
        ({**GOOD, "env": {"TF_CONFIG": "{}"}}, "env.TF_CONFIG"),
        ({**GOOD, "spec": {"volums": []}}, "spec.volums"),
        ({**GOOD, "spec": {"resources": {"cpu": "two"}}}, "spec.resources.cpu: 'two'"),
        ({**GOOD, "evaluator": 2}, "evaluator: 2 is more"),
        ({**GOOD, "system": "slurm"}, "system: 'slurm' is unknown. Allowed: local, kubeflow"),
        ({**without("image"), "system": "kubeflow"}, "roles.worker.image: is missing"),
        ({**without("command"), "system": "local"}, "roles.worker.command: is missing"),
    ],
)
def test_a_constant_that_the_launcher_refuses(step, inputs, says, tmp_path):
    messages = lint_messages(compiled(lambda: step(**inputs), tmp_path))
    task = "train-and-finalize/train" if step is train_and_finalize else step.component_spec.name
    assert any(problem.startswith(f"task {task}: {says}") for problem in messages), messages


@pytest.mark.parametrize(
    ("spec", "warned"),
    [({"keep_for": "61m"}, True), ({"keep_for": "1h"}, False), ({}, False), ({"deadlines": {"total": "2h"}}, False)],
)
def test_a_job_does_not_outlive_the_workflow_of_its_run(spec, warned, tmp_path):
    messages = warnings(compiled(lambda: train(**GOOD, spec=spec), tmp_path))
    assert bool(messages) is warned
    assert not warned or "keep_for: 1h01m is too long for the back end 2.17," in messages[0], messages
    elsewhere = {"system": "hai", "spec": {**spec, "working_dir": "/shared/ada/mnist"}}
    assert not any("keep_for" in item for item in warnings(compiled(lambda: train(**GOOD, **elsewhere), tmp_path)))


def test_a_retry_that_newer_back_ends_do_not_make(tmp_path):
    def retried():
        trained = train(**GOOD).set_retry(num_retries=2)
        wait(job=trained.outputs["job"]).set_retry(num_retries=2)

    messages = warnings(compiled(retried, tmp_path))
    assert [item.partition(": the back end 2.17")[0] for item in messages] == [
        "task train: set_retry",
        "task wait: set_retry",
    ]


@pytest.mark.parametrize("field", ["workers", "args", "chief"])
def test_a_job_without_an_image_whose_other_inputs_the_run_sets(field, tmp_path):
    types = {"workers": int, "args": list, "chief": int}

    def pipeline(value):
        train(**{**without("image"), field: value})

    pipeline.__annotations__ = {"value": types[field]}
    text = compiled(pipeline, tmp_path)
    assert lint_messages(text) == []
    [warning] = warnings(text)
    assert "on a cluster, roles." in warning
    assert "image: is missing" in warning


def test_every_problem_is_reported(tmp_path):
    messages = lint_messages(compiled(lambda: train(**{**without("name"), "cpu": "two", "restart": "nope"}), tmp_path))
    assert len(messages) == 3, messages


def inputs_of_all_types(name: str, spec: Optional[dict] = None, image: str = "", workers: int = 1, settings: dict = {}):
    train(name=name, image=image, workers=workers, env=settings, evaluator=1, command=["a"])
    train_and_finalize(spec=spec)
    train(spec=spec, workers=workers, system=image)


def test_values_known_only_at_run_time_are_no_problem(tmp_path):
    text = compiled(inputs_of_all_types, tmp_path)
    assert lint_messages(text) == []
    assert warnings(text) == []


def test_a_constant_is_checked_beside_values_known_only_at_run_time(tmp_path):
    def pipeline(spec: dict, workers: int):
        train(spec=spec, workers=workers, cpu="two")

    [problem] = lint_messages(compiled(pipeline, tmp_path))
    assert problem.startswith("task train: cpu: 'two'")


def test_no_image(tmp_path):
    text = compiled(lambda: train(**without("image")), tmp_path)
    assert lint_messages(text) == [], "it runs on this machine"
    [warning] = warnings(text)
    assert warning.startswith("task train: on a cluster, roles.worker.image: is missing")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: cleanup(scope="all"), "scope: 'all' is unknown. Allowed: siblings, "),
        (lambda: cleanup(on_end="stop"), "on_end: 'stop' is unknown"),
        (lambda: cleanup(system="slurm"), "system: 'slurm' is unknown"),
        (
            lambda: evaluate_gate(metric="a", threshold=1.0, direction="up", metrics={"a": 1}),
            "direction: 'up' is unknown. Allowed: at_least, at_most",
        ),
        (lambda: evaluate_gate(metric="", threshold=1.0, metrics={"a": 1}), "metric: is empty"),
        (lambda: evaluate_gate(metric="a", threshold=1.0), "metrics: are missing"),
    ],
)
def test_other_steps(function, says, tmp_path):
    [problem] = lint_messages(compiled(function, tmp_path))
    assert says in problem


def test_good_steps(tmp_path):
    def pipeline(scope: str = "run"):
        done = wait(job=launch(**GOOD).outputs["job"])
        evaluate_gate(metric="accuracy", threshold=0.9, job=done.outputs["job"])
        evaluate_gate(metric="accuracy", threshold=0.9, direction="at_most", artifact=done.outputs["metrics"])
        cleanup(scope=scope, system="kubeflow").after(done).ignore_upstream_failure()

    text = compiled(pipeline, tmp_path)
    assert lint_messages(text) == []
    assert warnings(text) == []


def test_the_directions_are_those_of_the_launcher():
    assert step_rules._CHOICES["direction"] == gate._DIRECTIONS


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (lambda task: kubernetes.empty_dir_mount(task, "shm", "/dev/shm", "Memory", "1Gi"), "empty_dir_mount reaches"),
        (
            lambda task: kubernetes.add_ephemeral_volume(task, "scratch", "/scratch", ["ReadWriteOnce"], "1Gi"),
            "add_ephemeral_volume reaches",
        ),
        (lambda task: kubernetes.set_image_pull_secrets(task, ["registry"]), "set_image_pull_secrets reaches"),
        (lambda task: kubernetes.set_security_context(task, run_as_user=1000), "set_security_context reaches"),
        (lambda task: kubernetes.mount_pvc(task, pvc_name="data", mount_path="/data"), ""),
        (lambda task: kubernetes.add_toleration(task, key="gpu", operator="Exists"), ""),
    ],
)
def test_settings_that_do_not_reach_the_replicas(setting, says, tmp_path):
    text = compiled(lambda: setting(train(**GOOD)), tmp_path)
    assert lint_messages(text) == []
    messages = warnings(text)
    assert len(messages) == bool(says), messages
    assert all(warning.startswith(f"task train: {says}") for warning in messages), messages
    assert warnings(compiled(lambda: setting(wait(job={})), tmp_path)) == [], "it has no replicas"


# --- arguments of a run


def runs(workers: int = 2, name: str = "mnist", mode: str = "train"):
    train(name=name, image="mnist:1", command=["a"], workers=workers)
    with dsl.If(mode == "all"):
        train(name=name, image="mnist:1", command=["a"], workers=workers)


ARGUMENTS = [
    (None, []),
    ({}, []),
    ({"workers": 3, "name": "other"}, []),
    ({"name": "run-[[Index]]"}, []),
    ({"workers": -1}, ["task train: workers: -1 is out of range"]),
    ({"workers": 0}, ["task train: roles: is missing"]),
    ({"name": "My job", "workers": 0}, ["task train: name: 'My job'", "task train: roles: is missing"]),
]


@pytest.mark.parametrize(("arguments", "says"), ARGUMENTS)
def test_arguments_of_a_run(arguments, says, tmp_path):
    text = compiled(runs, tmp_path)
    for check in (lint_messages, local_lint_messages):
        messages = check(text, arguments)
        assert [message[: len(start)] for message, start in zip(messages, says, strict=True)] == says


ON_HAI = {**GOOD, "system": "hai"}


def reached(task):
    """Set what a launcher needs to reach HAI on a task."""
    kubernetes.use_secret_as_env(task, "hai", {"token": "TFSTEPS_HAI_TOKEN"})
    return task.set_env_variable("TFSTEPS_HAI_SERVER", "http://hai.example")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (
            lambda task: kubernetes.use_secret_as_env(task, "hai", {"token": "MARSV2_USER_TOKEN"}),
            "env.MARSV2_USER_TOKEN: is set by HAI on each rank",
        ),
        (lambda task: task.set_env_variable("MARSV2_USER_TOKEN", "t"), "env.MARSV2_USER_TOKEN: is set by HAI"),
        (lambda task: kubernetes.use_secret_as_env(task, "s", {"k": "PASSWORD"}), "env.PASSWORD: .*HAI has no Secrets"),
        (lambda task: kubernetes.use_config_map_as_env(task, "c", {"k": "A"}), "env.A: .*HAI has no Secrets"),
        (lambda task: kubernetes.use_field_path_as_env(task, "A", "metadata.name"), "env.A: .*HAI has no Secrets"),
        (lambda task: kubernetes.mount_pvc(task, "data", "/data"), "volumes"),
        (lambda task: kubernetes.use_secret_as_volume(task, "s", "/s"), "volumes"),
        (lambda task: kubernetes.use_config_map_as_volume(task, "c", "/c"), "volumes"),
    ],
)
def test_settings_of_a_task_that_its_job_system_refuses(setting, says, tmp_path):
    messages = lint_messages(compiled(lambda: setting(reached(train(**ON_HAI))), tmp_path))
    assert any(re.match(f"task train: {says}", problem) for problem in messages), messages
    assert lint_messages(compiled(lambda: setting(reached(train(**{**GOOD, "system": "kubeflow"}))), tmp_path)) == []


def test_a_claim_whose_name_only_the_run_knows(tmp_path):
    def pipeline(claim: str):
        kubernetes.mount_pvc(reached(train(**ON_HAI)), claim, "/data")

    assert any("volumes" in problem for problem in lint_messages(compiled(pipeline, tmp_path)))


def test_a_secret_of_the_launcher_is_no_problem(tmp_path):
    def pipeline():
        task = train(**ON_HAI).set_env_variable("TFSTEPS_HAI_SERVER", "http://hai.example")
        kubernetes.use_secret_as_volume(task, "hai", "/hai")
        task.set_env_variable("TFSTEPS_HAI_TOKEN_FILE", "/hai/token")

    text = compiled(pipeline, tmp_path)
    assert (lint_messages(text), warnings(text)) == ([], [])


def test_a_launcher_without_the_address_or_the_token_of_its_platform(tmp_path):
    address, token = warnings(compiled(lambda: train(**ON_HAI), tmp_path))
    assert address.startswith("task train: no variable of the launcher has the address of HAI")
    assert "set TFSTEPS_HAI_TOKEN_FILE on the task" in token
    assert warnings(compiled(lambda: reached(train(**ON_HAI)), tmp_path)) == []
