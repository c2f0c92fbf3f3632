"""`tfsteps submit --engine local`: a pipeline runs here, from its program or compiled."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.support.processes import started
from tests.support.waiting import read_until
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


ENDS = {1: (0, "nightly succeeded after"), 3: (10, "step step failed with exit code 7")}


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


def test_an_image_that_is_not_installed_here(tmp_path, home):
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
        f"error: run {run_id} has no jobs; `tfsteps show {run_id}` with the same options says how it ended\n",
    )
    assert tfsteps("rerun", run_id)[0] == 2, "and so it is when it is run again"
    home.rename(tmp_path / "moved")
    home.write_text("a file")
    code, _, err = tfsteps("submit", file, "--engine", "local")
    assert (code, "the run folder cannot be used: " in err, err.endswith("; set TFSTEPS_HOME\n")) == (13, True, True)


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


FAILING = """
from kfp import dsl
from tfsteps.kfp import train

@dsl.component(base_image="python:3.11")
def after(model: dsl.Input[dsl.Model], wrong: str):
    import os
    print("the model has", *os.listdir(model.path))
    if wrong:
        raise ValueError(wrong)

@dsl.pipeline(name="failing")
def failing(wrong: str = "my own step is wrong"):
    command = ["sh", "-c", "mkdir -p $TFSTEPS_MODEL_DIR && echo 1 > $TFSTEPS_MODEL_DIR/weights"]
    trained = train(name="quick", command=command, workers=1)
    after(model=trained.outputs["model"], wrong=wrong)
"""


def test_a_pipeline_is_a_run(tmp_path):
    file = tmp_path / "failing.py"
    file.write_text(FAILING)
    code, out, err = tfsteps("submit", file, "--engine", "local", "--installed", "python:3.11")
    assert (code, err) == (10, "")
    assert "[after] the model has weights" in out, "model.path can be opened here"
    assert "[train] quick: running" in out
    assert "tensorboard" not in out, "only if it is asked for"
    ended = "failed with exit code 1: ValueError: my own step is wrong"
    assert out.splitlines()[-1].endswith(f"step after {ended}")
    run = out.split()[1]
    rows = json.loads(tfsteps("runs", "--state", "failed", "--output", "json")[1])
    assert [(row["run"], row["task"], row["attempt"], row["state"]) for row in rows] == [(run, "", None, "failed")]
    shown = tfsteps("show", run)[1]
    assert "step after: failed" in shown
    assert shown.splitlines()[-1].endswith(ended)
    for command in (("logs", run), ("logs", run, "--task", "after"), ("debug", run)):
        assert "ValueError: my own step is wrong" in tfsteps(*command)[1], command
    report = tfsteps("report", run)[1].splitlines()[0]
    assert "ValueError: my own step is wrong</pre>" in pathlib.Path(report).read_text().replace("\n", "")
    code, out, err = tfsteps("rerun", run, "-p", "wrong=")
    assert (code, err) == (0, ""), out
    assert out.startswith(f"again: run {run}, wrong default -> \nrun failing-"), out
    code, _, err = tfsteps("rerun", run, "--set", "env.A=1")
    assert (code, err) == (2, f"error: run {run} is a pipeline, and --set is about one job; add --task NAME\n")
    assert "nothing is at model.path on a cluster" in tfsteps("compile", file)[2]


def test_a_killed_pipeline_is_lost_and_a_stopped_one_is_cancelled(tmp_path):
    file = tmp_path / "nightly.py"
    file.write_text(PROGRAM.replace("test {n} -lt 3", "echo begun; sleep 600"))
    command = [pathlib.Path(sys.executable).with_name("tfsteps"), "submit", file, *OPTIONS]
    for end, state in ((lambda run, _: tfsteps("stop", run), "cancelled"), (lambda _, process: process.kill(), "lost")):
        with started(command, stdout=subprocess.PIPE, text=True) as process:
            run = read_until(process, r"\[step\] begun").split()[1]
            assert "pipeline nightly: running" in tfsteps("show", run)[1]
            assert "[step] begun" in tfsteps("logs", run)[1]
            end(run, process)
            process.wait()
        assert f"step step: {state}" in tfsteps("show", run)[1]
        assert f" {state} " in tfsteps("runs", run)[1]
