"""`tfsteps submit --engine local`: a pipeline runs here, from its program or compiled."""

import pytest

from tests.unit.cli.command import tfsteps

PROGRAM = """
from kfp import dsl

@dsl.container_component
def step(n: int):
    command = ["sh", "-c", "pwd; test {n} -lt 3 || exit 7"]
    return dsl.ContainerSpec(image="acme/steps:1", command=command, args=["--executor_input", "{{$}}"])

@dsl.pipeline(name="nightly")
def nightly(n: int = 1):
    step(n=n)
"""
OPTIONS = ["--engine", "local", "--installed", "acme/steps:1"]


ENDS = {1: (0, "nightly succeeded after"), 3: (7, "nightly failed: step step")}


@pytest.mark.parametrize("form", ["program", "compiled"])
@pytest.mark.parametrize("number", ENDS)
def test_a_pipeline_runs_here(tmp_path, monkeypatch, form, number):
    file = tmp_path / "nightly.py"
    file.write_text(PROGRAM.replace("{n}", str(number)))
    if form == "compiled":
        compiled = tmp_path / "nightly.yaml"
        assert tfsteps("compile", file, "-o", compiled)[0] == 0
        file = compiled
        monkeypatch.chdir(tmp_path)
    code, out, err = tfsteps("submit", file, *OPTIONS)
    assert (code, ENDS[number][1] in out) == (ENDS[number][0], True), err
    assert str(tmp_path) in out, "steps start in the program's folder, or in the current one"


def test_an_image_that_is_not_installed_here(tmp_path):
    file = tmp_path / "nightly.py"
    file.write_text(PROGRAM)
    code, out, err = tfsteps("submit", file, "--engine", "local")
    assert (code, "image 'acme/steps:1' cannot run without containers" in out + err) == (2, True), (out, err)
