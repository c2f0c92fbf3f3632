"""`tfsteps task`: one task of a pipeline by itself, as processes of this machine."""

import json
import subprocess

import pytest

from tests.support.processes import started
from tests.support.waiting import read_until
from tests.unit.cli.command import COMMAND, tfsteps
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs import store

PROGRAM = """
from kfp import dsl
from tfsteps.kfp import train

@dsl.container_component
def prepare(n: int, file: dsl.OutputPath(str)):
    command = ["sh", "-c", 'mkdir -p $(dirname "$1"); printf data-1 > "$1"', "-", file]
    return dsl.ContainerSpec(image="acme/steps:1", command=command)

@dsl.pipeline(name="small")
def small(epochs: int = 2, extra: dict = {"A": "1"}):
    data = prepare(n=1)
    with dsl.If(data.outputs["file"] == "data-1", name="any"):
        with dsl.ParallelFor([0.1], name="rates") as rate:
            train(name="quick", command=["sh", "-c", "echo $EPOCHS $TFSTEPS_DATA $LR; sleep ${SECONDS_LONG:-0}"],
                  workers=1, env={"EPOCHS": epochs, "LR": rate}, deadlines={"total": "1h"}, data=data.outputs["file"])
"""
VALUES = ("-p", "prepare.file=data-1", "-p", "for-loop-3.item=0.1")
RUN, DEBUG = "run-small-train", "debug-small-train"


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "small.py"
    file.write_text(PROGRAM)
    return file


def succeeded(*args):
    code, out, err = tfsteps(*args)
    assert code == 0, err
    return out


def recorded(run, task):
    (attempt,) = store.attempts(run, task)
    return json.loads((attempt.folder / "job.json").read_bytes())


def test_the_job_is_that_of_the_pipeline(program):
    out = succeeded("submit", program, "--engine", "local", "--installed", "acme/steps:1")
    whole = out.split()[1]
    (of_pipeline,) = store.attempts(whole)
    out = succeeded("task", "run", program, "train", *VALUES)
    assert "[worker-0] 2 data-1 0.1" in out
    assert recorded(RUN, "train") == json.loads((of_pipeline.folder / "job.json").read_bytes())
    assert succeeded("task", "logs", program, "train") == "[worker-0] 2 data-1 0.1\n"


def test_the_task_of_a_run_and_of_a_compiled_file(program, tmp_path):
    compiled = tmp_path / "small.yaml"
    succeeded("compile", program, "-o", compiled)
    assert "[worker-0] 5 data-1 0.1" in succeeded("task", "run", compiled, "train", *VALUES, "-p", "epochs=5")
    out = succeeded("submit", program, "--engine", "local", "--installed", "acme/steps:1")
    whole = out.split()[1]
    task = store.attempts(whole)[0].status().identity.task
    assert "[worker-0] 2 data-1 0.1" in succeeded("task", "run", whole, task)


def test_a_second_run_replaces_one_that_has_ended_and_a_running_one_only_if_asked(program):
    succeeded("task", "run", program, "train", *VALUES)
    long = ("task", "run", program, "train", *VALUES, "--set", "env.SECONDS_LONG='100'")
    with started([COMMAND, *map(str, long)], stdout=subprocess.PIPE, text=True) as process:
        read_until(process, r"\[worker-0\] 2 data-1 0.1")
        (first,) = store.attempts(RUN)
        code, out, err = tfsteps("task", "run", program, "train", *VALUES)
        assert (code, out) == (2, "")
        assert err.endswith("--replace stops and removes it first\n")
        assert first.alive().yes
        code, _, err = tfsteps("task", "run", program, "train", *VALUES, "--replace", "-p", "train.workers=0")
        assert (code, first.alive().yes) == (2, True), "a job that is wrong replaces nothing"
        out = succeeded("task", "run", program, "train", *VALUES, "--replace")
        assert "train succeeded" in out
        assert process.wait(10) == ExitCode.CANCELLED
    (left,) = store.attempts(RUN)
    assert left.folder != first.folder


def test_debug_holds_the_replicas_until_its_time(program):
    code, out, _ = tfsteps("task", "debug", program, "train", *VALUES, "--for", "2s")
    assert code == ExitCode.DEADLINE
    assert "worker-0 is held; a shell beside it:  tfsteps shell debug-small-train worker-0" in out
    assert "worker: its program is  sh -c 'echo $EPOCHS" in out
    assert recorded(DEBUG, "train")["deadlines"]["total"] == 2.0


def test_debug_ends_by_default_after_two_hours_and_a_clear_ends_it_now(program):
    succeeded("task", "run", program, "train", *VALUES)
    command = [COMMAND, "task", "debug", str(program), "train", *VALUES]
    with started(command, stdout=subprocess.PIPE, text=True) as process:
        read_until(process, "all that is held is up")
        assert recorded(DEBUG, "train")["deadlines"]["total"] == 7200.0
        succeeded("task", "clear", program, "train", "--yes")
        assert process.wait(10) == ExitCode.CANCELLED
    assert store.runs() == []


def test_a_detached_debug_run_is_stopped_by_its_id(program):
    succeeded("task", "debug", program, "train", *VALUES, "--detach")
    assert "held" not in succeeded("task", "logs", program, "train")
    succeeded("stop", DEBUG)
    (attempt,) = store.attempts(DEBUG)
    assert attempt.alive().no


def test_of_a_run_of_the_pipeline_one_task_is_run_again_or_removed(program):
    out = succeeded("submit", program, "--engine", "local", "--installed", "acme/steps:1")
    whole = out.split()[1]
    name = store.attempts(whole)[0].status().identity.task
    assert "[worker-0] 2 data-1 0.1" in succeeded("rerun", whole, "--task", name)
    code, _, err = tfsteps("rerun", whole, "--task", "prepare")
    assert (code, "task 'prepare' is unknown; it has " in err) == (2, True)
    code, out, err = tfsteps("clear", whole, "--task", name, "--yes")
    assert (code, "left: the files of the pipeline in" in err) == (0, True)
    assert f"run {whole}, task {name} cleared" in out
    assert store.attempts(whole) == []
    assert "prepare" in succeeded("show", whole), "what the pipeline was is still known"
