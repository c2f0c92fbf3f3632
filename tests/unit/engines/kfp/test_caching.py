"""Which steps may be taken from the cache: training steps whose inputs change with all that decides their result."""

import pytest
from kfp import compiler, dsl

from tfsteps import kfp as steps
from tfsteps.kfp import lint_messages

DIGEST = f"a/b@sha256:{'0' * 64}"
COMPLETE = {"name": "a", "image": DIGEST, "command": ["x"], "workers": 1, "run_id": "", "env": {"FINGERPRINT": "1"}}


@dsl.component(base_image="a:1")
def variables() -> dict:
    return {"FINGERPRINT": "1"}


def lint(tmp_path, step, options, fields):
    @dsl.pipeline(name="cached")
    def pipeline(image: str = DIGEST):
        inputs = {"image": image, "env": variables().output}
        values = {name: inputs[name] if value == "input" else value for name, value in fields.items()}
        step(**values).set_caching_options(*options)

    compiler.Compiler().compile(pipeline, str(tmp_path / "p.yaml"))
    return lint_messages((tmp_path / "p.yaml").read_text())


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"image": "input", "env": "input"},
        {"image": "", "spec": {"roles": {"worker": {"image": DIGEST}}}, "workers": None},
        {"env": None, "spec": {"env": {"FINGERPRINT": "1"}}},
    ],
)
def test_a_training_step_with_a_fingerprint_may_be_cached(fields, tmp_path):
    inputs = {name: value for name, value in {**COMPLETE, **fields}.items() if value is not None}
    assert lint(tmp_path, steps.train, (True,), inputs) == []


@pytest.mark.parametrize(
    ("fields", "options", "lacks"),
    [
        ({"image": "a/b:1"}, (True,), "an image with a digest"),
        ({"spec": {"roles": {"chief": {"image": "a:1"}}}}, (True,), "an image with a digest"),
        ({"env": {"A": "1"}}, (True,), "the variable FINGERPRINT in `env`"),
        ({"run_id": None}, (True,), 'run_id=""'),
        ({}, (True, "key"), "no `cache_key`"),
    ],
)
def test_what_a_cached_training_step_lacks(fields, options, lacks, tmp_path):
    inputs = {name: value for name, value in {**COMPLETE, **fields}.items() if value is not None}
    (problem,) = lint(tmp_path, steps.train, options, inputs)
    assert f"it needs {lacks}" in problem


def test_other_steps_may_not_be_cached(tmp_path):
    (problem,) = lint(tmp_path, steps.launch, (True,), COMPLETE)
    assert "a launcher taken from the cache runs no job" in problem


def test_no_step_is_cached_by_default(tmp_path):
    assert lint(tmp_path, steps.train, (False,), {**COMPLETE, "image": "a/b:1"}) == []
    assert not steps.train.pipeline_spec.root.dag.tasks["train"].caching_options.enable_cache
