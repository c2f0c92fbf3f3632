"""`tfsteps submit --engine local`: a pipeline runs here, from its program or compiled."""

import json

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
    assert (code, "add `--installed acme/steps:1`" in out + err) == (2, True), (out, err)
    assert "tensorboard" not in out
    run_id = out.split()[1]
    code, shown, err = tfsteps("show", run_id)
    assert (code, err) == (0, "")
    assert "failed after" in shown
    assert "add `--installed acme/steps:1`" in shown
    code, shown, _ = tfsteps("show", run_id, "--output", "json")
    assert (json.loads(shown)["state"], json.loads(shown)["attempts"]) == ("failed", [])
    code, _, err = tfsteps("logs", run_id)
    assert (code, err) == (
        2,
        f"error: run {run_id} has no jobs; `tfsteps show {run_id}` says how it ended\n",
    )


def test_only_what_matters_on_this_machine_is_checked(tmp_path):
    file = tmp_path / "nightly.py"
    unpinned = PROGRAM.replace("acme/steps:1", "acme/steps").replace("{n}", "1")
    file.write_text(unpinned.replace("    step(n=n)", "    step(n=n).ignore_upstream_failure()"))
    assert "not pinned" in tfsteps("lint", _compiled(file))[2]
    code, out, err = tfsteps("submit", file, "--engine", "local", "--installed", "acme/steps")
    assert (code, "nightly succeeded after" in out, err) == (0, True, ""), (out, err)


WRONG = """
from kfp import dsl
from tfsteps.kfp import train

@dsl.pipeline(name="nightly")
def nightly(folder: str = ""):
    train(command=["true"], name="nightly", deadlines={"total": "soon"})
"""


def test_wrong_inputs_of_our_steps_are_found_before_a_local_run(tmp_path):
    file = tmp_path / "nightly.py"
    file.write_text(WRONG)
    code, out, err = tfsteps("submit", file, "--engine", "local")
    assert (code, out) == (2, "")
    assert "task train: deadlines.total: 'soon' is not a duration" in err
    assert "warning" not in err, "that it has no image matters on a cluster alone"


def _compiled(program):
    """Compile a program whose problems `tfsteps compile` would refuse."""
    from kfp import compiler  # noqa: PLC0415

    names = {}
    exec(compile(program.read_text(), str(program), "exec"), names)
    compiler.Compiler().compile(names["nightly"], str(file := program.with_suffix(".yaml")))
    return file
