"""Which pipelines this version of kfp runs on this machine, and what is said where it does not."""

import sys

import pytest
from kfp import dsl
from kfp.local import logging_utils
from kfp.local.orchestrator import task_executor

from tfsteps.engines.local.runner import PipelineError, check
from tfsteps.engines.local.sdk_patches import problem
from tfsteps.image import IMAGE


@dsl.container_component
def step(number: int):
    return dsl.ContainerSpec(
        image=IMAGE,
        command=["python", "-c", "pass"],
        args=["--executor_input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )


@dsl.pipeline
def plain():
    step(number=1).after(step(number=2))


@dsl.pipeline
def retried():
    step(number=1).set_retry(2)


@dsl.pipeline
def looped():
    with dsl.ParallelFor([1, 2]) as number:
        step(number=number)


@dsl.pipeline
def coloured():
    step(number=1).set_env_variable("COLOUR", "blue")


@dsl.pipeline
def finalized():
    step(number=1).after(step(number=2)).ignore_upstream_failure()


@pytest.fixture
def kfp_215(monkeypatch):
    """kfp.local without a module that came with kfp 2.17."""
    monkeypatch.setitem(sys.modules, "kfp.local.orchestrator.task_executor", None)


@pytest.mark.parametrize("pipeline", [plain, retried, looped, coloured, finalized], ids=lambda pipeline: pipeline.name)
def test_this_kfp_runs_all(pipeline):
    check(pipeline, [IMAGE])


@pytest.mark.usefixtures("kfp_215")
def test_single_tasks_run_with_any_kfp():
    check(plain, [IMAGE])


@pytest.mark.usefixtures("kfp_215")
@pytest.mark.parametrize(
    ("pipeline", "lacking"),
    [
        (retried, "retries"),
        (looped, "conditions, loops, exit handlers and inner pipelines"),
        (coloured, "environment variables of tasks"),
        (finalized, "tasks that ignore a failure"),
    ],
    ids=["retries", "loop", "environment", "finalizer"],
)
def test_what_an_older_kfp_does_otherwise_is_refused_before_anything_runs(pipeline, lacking):
    with pytest.raises(PipelineError, match=rf"kfp \S+ does not run {lacking} on this machine .* install kfp 2\.17"):
        check(pipeline, [IMAGE])


@pytest.mark.parametrize(
    ("owner", "name"),
    [(logging_utils, "indented_print"), (task_executor, "_warn_local_only_noops")],
    ids=["always", "groups"],
)
def test_a_name_that_a_newer_kfp_may_lack(owner, name, monkeypatch):
    monkeypatch.delattr(owner, name)
    module = owner.__name__.removeprefix("kfp.")
    assert f"has no kfp.{module}.{name}, which runs on this machine need; install kfp 2.17" in problem(plain)


def test_a_package_that_kfp_imports_and_does_not_depend_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "docker", None)
    monkeypatch.setitem(sys.modules, "kfp.local.task_dispatcher", None)
    assert "install it (`pip install kfp.local.task_dispatcher`), or kfp 2.17 or newer" in problem(plain)
