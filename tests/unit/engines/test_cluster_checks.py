"""`compile` checks the jobs of a pipeline against platform settings; what only a run knows is not certain."""

import pytest

from tests.unit.cli.command import tfsteps
from tfsteps.settings.find import VARIABLE

PROGRAM = """
from kfp import dsl
from tfsteps.kfp import train


@dsl.component(base_image="registry.example/python:3.11")
def prepare() -> str:
    return "x"


@dsl.pipeline
def p(size: str = "8Gi"):
    data = prepare()
    train(name="quick", image="registry.example/train:1", command=["train"], workers={workers}, {more})
"""
REPLICAS = "task train: roles: {} has too many replicas"


@pytest.fixture
def compile_program(tmp_path, monkeypatch):
    """Return what compiles the pipeline with inputs of `train` under settings: its exit code and its messages."""

    def compiled(settings, more, workers=4):
        file = tmp_path / "p.py"
        file.write_text(PROGRAM.replace("{workers}", str(workers)).replace("{more}", more))
        (tmp_path / "settings.yaml").write_text(settings)
        monkeypatch.setenv(VARIABLE, str(tmp_path / "settings.yaml"))
        code, _, err = tfsteps("compile", file, "--output", tmp_path / "out.yaml")
        assert (tmp_path / "out.yaml").exists() == (code == 0)
        return code, err

    return compiled


UNKNOWN_ARGS = "args=['--data', data.output]"
UNKNOWN_MEMORY = "spec={'resources': {'memory': data.output}}"


def test_a_job_is_checked_although_only_a_run_knows_an_argument(compile_program):
    code, err = compile_program("limits: {replicas: 3}", UNKNOWN_ARGS)
    assert (code, REPLICAS.format(4) in err) == (2, True), err
    assert compile_program("limits: {replicas: 4}", UNKNOWN_ARGS)[0] == 0


def test_memory_that_only_a_run_knows_is_not_refused_and_a_warning_says_so(compile_program):
    code, err = compile_program("limits: {memory: 1Gi}", UNKNOWN_MEMORY)
    assert code == 0, err
    assert "task train is not checked against" in err
    assert "only by its launcher: only a run knows prepare" in err


def test_memory_that_is_known_is_checked(compile_program):
    code, err = compile_program("limits: {memory: 1Gi}", "spec={'resources': {'memory': '8Gi'}}")
    assert (code, "limits.memory" in err) == (2, True), err
    assert compile_program("limits: {memory: 8Gi}", "spec={'resources': {'memory': '8Gi'}}")[0] == 0


def test_memory_that_is_an_input_of_the_pipeline_has_its_default(compile_program):
    code, err = compile_program("limits: {memory: 1Gi}", "spec={'resources': {'memory': size}}")
    assert (code, "limits.memory" in err) == (2, True), err


def test_wrong_settings_are_named_and_nothing_is_written(compile_program):
    code, err = compile_program("limits: {replica: 3}", UNKNOWN_ARGS)
    assert (code, "settings.yaml:1: limits.replica: is not a known field" in err) == (2, True), err
