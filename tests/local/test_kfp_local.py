"""Pipelines of small programs as kfp.local runs them by our task handler."""
# ruff: noqa: UP045  kfp does not know `X | None`

import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Optional

import psutil
import pytest
from kfp import dsl
from kfp.local import config, logging_utils, subprocess_task_handler

from tfsteps.engines.local.runner import PipelineError, run
from tfsteps.image import IMAGE
from tfsteps.kfp import train
from tfsteps.runs.store import attempts

# Python, with the task at hand as `task`.
PROGRAM = """
import os, sys, time
from tfsteps.engines.kfp.executor import ExecutorInput
task = ExecutorInput.from_arguments(sys.argv)
"""


def step(program, image=IMAGE):
    return dsl.ContainerSpec(
        image=image,
        command=["python", "-c", PROGRAM + program],
        args=["--executor_input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )


@dsl.container_component
def count(number: dsl.OutputPath(int), word: dsl.OutputPath(str), start: int = 1):
    return step("""task.write({"number": task.parameters["start"] + 1, "word": "big"}, {})""")


@dsl.container_component
def say(text: str, number: int = 0):
    return step("""print(task.parameters["text"], task.parameters["number"], os.environ.get("COLOUR"), os.getcwd())""")


@dsl.container_component
def fail(code: int):
    return step("""print("failing"); sys.exit(task.parameters["code"])""")


@dsl.container_component
def fail_once(marker: str):
    return step("""
marker = task.parameters["marker"]
if not os.path.exists(marker):
    open(marker, "w").close()
    sys.exit(3)
""")


@dsl.container_component
def optional(
    seen: dsl.OutputPath(list),
    whole: Optional[int] = None,
    part: Optional[float] = None,
    text: Optional[str] = None,
    words: Optional[list] = None,
):
    return step("""task.write({"seen": sorted(task.parameters)}, {})""")


@dsl.container_component
def sleep():
    return step("""print("sleeping"); time.sleep(600)""")


def do(pipeline, tmp_path, /, arguments=None, **options):
    lines = []
    steps = run(
        pipeline,
        arguments or {},
        pipeline_root=tmp_path / "root",
        say=lambda line: lines.append(text_of(line)),
        **options,
    )
    return [(item.name, item.exit_code) for item in steps], lines


def text_of(line):
    """Return a line without the task before it: `[worker-0] hello`, or the text of the step's own line."""
    prefix, bracket, text = line.partition("] ")
    replica = re.search(r"/((?:chief|worker|ps|evaluator)-\d+)$", prefix)
    return f"[{replica[1]}] {text}" if replica else text if bracket else line


def test_outputs_reach_the_next_step(tmp_path, capfd):
    @dsl.pipeline(name="chain")
    def chain(start: int = 4):
        first = count(start=start)
        second = count(start=first.outputs["number"])
        say(text=f"{second.outputs['word']} it is", number=second.outputs["number"])

    steps, lines = do(chain, tmp_path, {"start": 7}, env={"COLOUR": "red"}, cwd=tmp_path)
    assert steps == [("count", 0), ("count-2", 0), ("say", 0)]
    assert lines == [f"big it is 9 red {tmp_path}"]
    assert capfd.readouterr() == ("", ""), "kfp has nothing to say of its own"


@pytest.mark.parametrize(("limit", "taken"), [(5, True), (50, False)])
def test_condition_on_an_output_of_any_name(limit, taken, tmp_path):
    @dsl.pipeline(name="condition")
    def condition(limit: int):
        counted = count(start=9)
        with dsl.If(counted.outputs["number"] > limit), dsl.If(counted.outputs["word"] == "big"):
            say(text="yes")
        with dsl.Else():
            say(text="no")

    _, lines = do(condition, tmp_path, {"limit": limit})
    assert [line.split()[0] for line in lines] == ["yes" if taken else "no"], lines


@dsl.container_component
def plain(  # noqa: PLR0917
    word: str,
    rows: int,
    rate: float,
    words: list,
    total: dsl.OutputPath(int),
    text: dsl.OutputPath(str),
    data: dsl.Output[dsl.Dataset],
    more: str = "def",
):
    program = """
import json, os, sys
total, text, data = sys.argv[1:4]
open(total, "w").write("7"); open(text, "w").write(" ".join(sys.argv[4:])); open(data, "w").write("a,b")
"""
    return dsl.ContainerSpec(
        image=IMAGE,
        command=["python", "-c", program],
        args=[total, text, data.path, word, "--rows", rows, "--rate", rate, words, more, "$HOME"],
    )


@dsl.container_component
def show(data: dsl.Input[dsl.Dataset], text: str, total: int):
    return dsl.ContainerSpec(
        image=IMAGE, command=["sh", "-c", 'cat "$0"; echo " $1 $2"'], args=[data.path, text, total]
    )


def test_container_components_with_plain_arguments(tmp_path):
    @dsl.pipeline(name="plain")
    def pipeline(rows: int = 3):
        with dsl.ParallelFor(["a", "b"]) as item:
            out = plain(word=item, rows=rows, rate=0.5, words=["x", 1])
            show(data=out.outputs["data"], text=out.outputs["text"], total=out.outputs["total"])

    steps, lines = do(pipeline, tmp_path)
    assert len({name for name, _ in steps}) == 4
    assert sorted(lines) == [f'a,b {item} --rows 3 --rate 0.5 ["x", 1] def $HOME 7' for item in "ab"]


def test_inputs_that_are_left_out(tmp_path):
    @dsl.pipeline(name="optional")
    def pipeline() -> list:
        return optional(words=[]).outputs["seen"]

    assert do(pipeline, tmp_path)[0] == [("optional", 0)]
    [written] = tmp_path.rglob("executor_output.json")
    assert '"seen":["words"]' in written.read_text()


def test_loop_with_a_step_in_each_thread(tmp_path):
    @dsl.pipeline(name="loop")
    def loop():
        with dsl.ParallelFor(["a", "b", "c"]) as item:
            say(text=item)

    steps, lines = do(loop, tmp_path)
    assert len({name for name, _ in steps}) == 3, "each iteration is a task of its own"
    assert sorted(line.split()[0] for line in lines) == ["a", "b", "c"]


def test_failed_step(tmp_path):
    @dsl.pipeline(name="failing")
    def failing():
        say(text="never").after(fail(code=7))

    with pytest.raises(PipelineError, match=r"step fail failed with exit code 7") as error:
        do(failing, tmp_path)
    assert error.value.exit_code == 10
    assert [item.name for item in error.value.steps] == ["fail"]


def test_exit_handler_runs_and_the_pipeline_has_failed(tmp_path):
    @dsl.pipeline(name="handled")
    def handled():
        with dsl.ExitHandler(say(text="clean")):
            fail(code=9)

    with pytest.raises(PipelineError) as error:
        do(handled, tmp_path)
    assert error.value.exit_code == 10
    assert [(item.name, item.exit_code) for item in error.value.steps][-1] == ("say", 0)


def test_retry_that_mends_it(tmp_path):
    @dsl.pipeline(name="retry")
    def retry(marker: str):
        fail_once(marker=marker).set_retry(num_retries=1, backoff_duration="0s")

    steps, _ = do(retry, tmp_path, {"marker": str(tmp_path / "marker")})
    assert steps == [("fail-once", 3), ("fail-once", 0)]


def test_a_failure_is_not_blamed_on_a_step_that_a_retry_has_corrected(tmp_path):
    @dsl.pipeline(name="blame")
    def blame(marker: str):
        fail(code=8).after(fail_once(marker=marker).set_retry(num_retries=1, backoff_duration="0s"))

    with pytest.raises(PipelineError, match="step fail failed with exit code 8"):
        do(blame, tmp_path, {"marker": str(tmp_path / "marker")})


def test_train_is_a_job_of_the_run(tmp_path):
    @dsl.pipeline(name="two-jobs")
    def pipeline():
        first = train(name="first", command=["python", "-c", "print('hello')"], workers=2)
        with dsl.If(first.outputs["failure"] == ""):
            train(name="second", command=["sh", "-c", "exit 4"], workers=1)

    with pytest.raises(PipelineError, match=r"step .*train-2 failed with exit code 10"):
        do(pipeline, tmp_path, run_id="r1")
    statuses = [attempt.status() for attempt in attempts("r1")]
    assert sorted((status.identity.pipeline, status.state) for status in statuses) == [
        ("two-jobs", "failed"),
        ("two-jobs", "succeeded"),
    ]


class Seen:
    def __init__(self):
        self.states, self.printed = [], []

    def changed(self, status):
        self.states.append(str(status.state))

    def lines(self, lines, task=""):
        self.printed += [(str(lines.replica), text) for text in lines.texts]


def test_observer(tmp_path):
    @dsl.pipeline(name="seen")
    def pipeline():
        train(name="hello", command=["python", "-c", "print('hello')"], workers=2)

    seen = Seen()
    _, lines = do(pipeline, tmp_path, observer=seen)
    assert sorted(seen.printed) == [("worker-0", b"hello"), ("worker-1", b"hello")]
    assert seen.states[-1] == "succeeded"
    assert lines[-1].startswith("hello-")
    assert not [line for line in lines if line.startswith("[worker")], "what the observer has seen is not said again"


def other_image():
    @dsl.container_component
    def other():
        return step("", image="python:3.13")

    return other, r"step other: image 'python:3.13' cannot run without containers; use tfsteps/launcher:"


def no_command():
    @dsl.container_component
    def bare():
        return dsl.ContainerSpec(image=IMAGE, args=["--verbose"])

    return bare, "step bare: has no command, and the program of its image is not known here"


def no_value():
    @dsl.container_component
    def named(name: str):
        return step("")

    def make():
        return named(name=dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER)

    return make, r"\{\{\$.pipeline_job_resource_name\}\} has no value in local runs"


@pytest.mark.parametrize("make", [other_image, no_command, no_value], ids=lambda make: make.__name__)
def test_what_cannot_run_here_is_refused_before_anything_runs(make, tmp_path):
    component, says = make()

    @dsl.pipeline(name="refused")
    def refused():
        say(text="first")
        component()

    with pytest.raises(PipelineError, match=says) as error:
        do(refused, tmp_path)
    assert error.value.exit_code == 2
    assert not (tmp_path / "root").exists()


def test_an_image_that_is_installed_here(tmp_path):
    @dsl.container_component
    def other():
        return step("print('here')", image="mnist:1")

    @dsl.pipeline(name="installed")
    def pipeline():
        other()

    assert do(pipeline, tmp_path, images=["mnist:1"])[1] == ["here"]


def test_a_signal_ends_the_step_and_starts_no_other(tmp_path):
    @dsl.pipeline(name="stopped")
    def stopped():
        say(text="never").after(sleep())

    lines = []

    def stop_when_asleep():
        while not any(line.endswith("sleeping") for line in lines):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_when_asleep, daemon=True).start()
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(PipelineError, match="was cancelled") as error:
        run(stopped, {}, pipeline_root=tmp_path, say=lines.append)
    assert error.value.exit_code == 12
    assert [(item.name, item.exit_code) for item in error.value.steps] == [("sleep", 143)]
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_stopped_pipeline_has_not_succeeded_even_if_its_last_step_has(tmp_path):
    @dsl.container_component
    def polite():
        return step("import signal; signal.signal(15, lambda *_: sys.exit(0)); print('sleeping'); time.sleep(600)")

    @dsl.pipeline(name="polite")
    def pipeline():
        polite()

    with pytest.raises(PipelineError, match="was cancelled") as error:
        run(pipeline, {}, pipeline_root=tmp_path, say=lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert [(item.name, item.exit_code) for item in error.value.steps] == [("polite", 0)]


def test_kfp_is_as_it_was(tmp_path):
    def state():
        return (
            subprocess_task_handler.SubprocessTaskHandler,
            logging_utils.local_logger_context,
            config.LocalExecutionConfig.instance,
        )

    @dsl.pipeline(name="one")
    def pipeline():
        fail(code=1)

    before = state()
    with pytest.raises(PipelineError):
        do(pipeline, tmp_path)
    assert state() == before


def test_steps_find_this_interpreter(tmp_path):
    @dsl.container_component
    def which():
        return step("print(sys.executable)")

    @dsl.pipeline(name="which")
    def pipeline():
        which()

    [line] = do(pipeline, tmp_path)[1]
    assert os.path.realpath(line) == os.path.realpath(sys.executable)


@dsl.pipeline(name="asleep")
def asleep():
    train(name="asleep", command=["sh", "-c", "echo asleep; sleep 600"], workers=1, restart="never")


class WhenAsleep:
    """An observer that does something once the replica says that it sleeps, and a status has been seen."""

    def __init__(self, act):
        self._act = act
        self._status = None
        self._asleep = False

    def changed(self, status):
        self._status = status
        self._act_if_due()

    def lines(self, lines, task=""):
        self._asleep |= b"asleep" in lines.texts
        self._act_if_due()

    def _act_if_due(self):
        if self._asleep and self._status:
            self._asleep = False
            self._act(self._status)


def test_launchers_are_forked_from_one_process_and_have_its_environment_and_folder(tmp_path):
    says = "pwd; echo $COLOUR $TFSTEPS_TASK; sed -n 's/^PPid:.//p' /proc/$PPID/status"  # of the launcher

    @dsl.pipeline(name="forked")
    def pipeline():
        one = train(name="one", command=["sh", "-c", says], workers=1)
        train(name="two", command=["sh", "-c", says], workers=1).after(one)

    seen = Seen()
    do(pipeline, tmp_path, observer=seen, cwd=tmp_path, env={"COLOUR": "red"})
    here = str(tmp_path).encode()
    parent = seen.printed[2][1]
    assert [text for _, text in seen.printed] == [here, b"red train", parent, here, b"red train-2", parent]
    assert psutil.Process(int(parent)).ppid() == os.getpid()
    assert os.getsid(int(parent)) != os.getsid(0), "what a terminal sends to its programs does not reach it"


UNGUARDED = """
import sys
from kfp import dsl
from tfsteps.kfp import run, train

print("begun", flush=True)

@dsl.pipeline(name="unguarded")
def unguarded():
    train(name="hello", command=["true"], workers=1)

run(unguarded, {}, pipeline_root=sys.argv[1])
"""


def test_a_program_is_not_run_again_for_a_step(tmp_path):
    (tmp_path / "program.py").write_text(UNGUARDED)
    command = [sys.executable, tmp_path / "program.py", tmp_path / "root"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    assert output.count("begun") == 1, output


def test_killed_launcher(tmp_path):
    with pytest.raises(PipelineError) as error:
        do(asleep, tmp_path, observer=WhenAsleep(lambda status: os.kill(status.launcher, signal.SIGKILL)), run_id="r")
    assert error.value.exit_code == 10
    assert error.value.steps[-1].exit_code == 137
    [attempt] = attempts("r")
    assert attempt.status().state == "lost"


def test_killed_server(tmp_path):
    def kill_parent(status):
        os.kill(psutil.Process(status.launcher).ppid(), signal.SIGKILL)
        os.kill(status.launcher, signal.SIGKILL)

    with pytest.raises(PipelineError) as error:
        do(asleep, tmp_path, observer=WhenAsleep(kill_parent))
    assert error.value.exit_code == 10
    assert error.value.steps[-1].exit_code == 137


def test_stopped_launcher(tmp_path):
    with pytest.raises(PipelineError, match="was cancelled") as error:
        do(asleep, tmp_path, observer=WhenAsleep(lambda _: os.kill(os.getpid(), signal.SIGINT)), run_id="r")
    assert [(item.name, item.exit_code) for item in error.value.steps] == [("train", 12)]
    [attempt] = attempts("r")
    assert attempt.status().state == "cancelled"
