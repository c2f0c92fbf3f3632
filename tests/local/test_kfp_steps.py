"""The steps of Kubeflow pipelines on this machine: launch, wait, cleanup, evaluate_gate, train_and_finalize."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import psutil
import pytest
from kfp import dsl

from tests.local.test_kfp_local import WhenAsleep, do, say, step
from tests.support.waiting import until
from tfsteps.engines.local.runner import PipelineError
from tfsteps.kfp import cleanup, evaluate_gate, launch, run, train, train_and_finalize, wait
from tfsteps.runs.store import attempts

ROOT = pathlib.Path(__file__).parents[2]
HELLO = ["sh", "-c", "echo hello; sleep 0.3; echo bye"]
ASLEEP = ["sh", "-c", "echo asleep; sleep 600"]
FAILING = ["sh", "-c", "echo failing; exit 4"]
WRITER = """
import os
from tests.support.event_writer import ScalarWriter
with ScalarWriter(os.environ["TFSTEPS_LOG_DIR"]) as writer:
    writer.scalar("eval/accuracy", 0.875, step=1)
"""


def outputs(tmp_path, task):
    """Return the output parameters of a task."""
    [file] = [item for item in tmp_path.rglob("executor_output.json") if item.parent.name == task]
    return json.loads(file.read_text())["parameterValues"]


def states(run):
    """Return the state of each job of a run, by the job's stem."""
    statuses = [attempt.status() for attempt in attempts(run)]
    return {status.job.rpartition("-")[0]: str(status.state) for status in statuses}


def failure(tmp_path, pipeline, **options):
    """Run a pipeline that fails; return the exit codes by step, and what was said."""
    lines = []
    with pytest.raises(PipelineError) as error:
        lines = do(pipeline, tmp_path, **options)[1]
    return {step.name: step.exit_code for step in error.value.steps}, error.value, lines


# --- launch and wait


def test_other_work_between_launch_and_wait(tmp_path):
    @dsl.pipeline(name="between")
    def between():
        launched = launch(name="hello", command=HELLO, workers=2)
        middle = say(text="between").after(launched)
        waited = wait(job=launched.outputs["job"]).after(middle)
        say(text=waited.outputs["failure"])

    steps, lines = do(between, tmp_path, run_id="r")
    assert steps == [("launch", 0), ("say", 0), ("wait", 0), ("say-2", 0)]
    assert lines.index("[worker-1] hello") > next(i for i, line in enumerate(lines) if line.startswith("between"))
    assert [line for line in lines if line.startswith("[worker-0]")] == ["[worker-0] hello", "[worker-0] bye"]
    launched, waited = outputs(tmp_path, "launch")["job"], outputs(tmp_path, "wait")["job"]
    for name in ("name", "uid", "system", "run", "task", "attempt", "output", "model", "logs"):
        assert waited[name] == launched[name], name
    assert (launched["state"], waited["state"], launched["task"]) == ("pending", "succeeded", "launch")
    assert json.loads(launched["spec"])["command"] == HELLO
    assert "spec" not in waited
    assert list(tmp_path.rglob("wait/logs"))
    assert list(tmp_path.rglob("wait/report"))
    assert states("r") == {"hello": "succeeded"}


def test_a_job_that_ended_before_anybody_waited(tmp_path):
    @dsl.pipeline(name="late")
    def late():
        launched = launch(name="quick", command=["true"], workers=1)
        wait(job=launched.outputs["job"]).after(nap().after(launched))

    assert [code for _, code in do(late, tmp_path)[0]] == [0, 0, 0]


@dsl.container_component
def nap():
    return step("time.sleep(1)")


@dsl.container_component
def see(path: str):
    return step("""while not os.path.exists(task.parameters["path"]): time.sleep(0.1)""")


def test_wait_fails_as_the_job_does(tmp_path):
    @dsl.pipeline(name="failing")
    def failing():
        launched = launch(name="failing", command=FAILING, workers=1)
        say(text="never").after(wait(job=launched.outputs["job"]))

    codes, error, _ = failure(tmp_path, failing)
    assert codes == {"launch": 0, "wait": 10}
    assert error.exit_code == 10
    assert "exit code 4" in outputs(tmp_path, "wait")["failure"]
    assert outputs(tmp_path, "wait")["fault"] == "user"


def test_wait_tried_again_goes_on_with_the_same_job(tmp_path):
    @dsl.pipeline(name="again")
    def again():
        program = f"echo asleep; until [ -e {tmp_path}/killed ]; do sleep 0.1; done"
        launched = launch(name="asleep", command=["sh", "-c", program], workers=1)
        wait(job=launched.outputs["job"]).set_retry(num_retries=1, backoff_duration="0s")

    killed = []

    def kill_waiting(status):
        for item in psutil.Process().children(recursive=True) if not killed else ():
            with contextlib.suppress(psutil.NoSuchProcess):  # the launch step may be on its way out
                alive = item.status() != psutil.STATUS_ZOMBIE
                if alive and item.pid != status.launcher and item.ppid() == parent_of_steps():
                    killed.append(item.pid)
                    item.kill()
                    (tmp_path / "killed").touch()

    def parent_of_steps():
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if "preload" in " ".join(child.cmdline()):
                    return child.pid
        return None

    steps, _ = do(again, tmp_path, observer=WhenAsleep(kill_waiting), run_id="r")
    assert steps == [("launch", 0), ("wait", 137), ("wait", 0)]
    assert len(killed) == 1
    assert len(attempts("r")) == 1


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ({}, "is not the output of a launch step"),
        ({"name": "a"}, "is not the output of a launch step"),
        (None, "is the output of a train or wait step, and its job has ended"),
    ],
)
def test_wait_for_what_was_not_launched(job, says, tmp_path):
    @dsl.pipeline(name="wrong")
    def wrong():
        ended = None if job is not None else train(name="hello", command=HELLO, workers=1).outputs["job"]
        wait(job=ended or job)

    lines = []
    with pytest.raises(PipelineError) as error:
        run_and_collect(wrong, tmp_path, lines)
    assert error.value.exit_code == 2
    assert says in "\n".join(lines)


def run_and_collect(pipeline, tmp_path, lines):
    run(pipeline, {}, pipeline_root=tmp_path / "root", say=lines.append)


def test_a_launched_job_ends_with_its_pipeline(tmp_path):
    @dsl.pipeline(name="forgotten")
    def forgotten():
        polite = f"trap 'sleep 0.5; echo saved; exit 0' TERM; touch {tmp_path}/asleep; sleep 600 & wait"
        see(path=f"{tmp_path}/asleep").after(launch(name="asleep", command=["sh", "-c", polite], workers=1))

    assert do(forgotten, tmp_path, run_id="r")[0] == [("launch", 0), ("see", 0)]
    [attempt] = attempts("r")
    assert str(attempt.status().state) == "cancelled"
    assert attempt.log.read_text().endswith("saved\n"), "it was asked, and asked once"
    assert not psutil.pid_exists(replica_of(attempt))


def replica_of(attempt):
    """Return the process id of the first replica."""
    return int(attempt.status().replicas[0].incarnations[0].place.split()[1])


KILLED = """
import sys
from kfp import dsl
from tests.local.test_kfp_local import sleep
from tfsteps.kfp import launch, run

@dsl.pipeline(name="killed")
def killed():
    sleep().after(launch(name="asleep", command=["sh", "-c", "echo asleep; sleep 600"], workers=1))

run(killed, {}, pipeline_root=sys.argv[1], run_id="r", say=lambda line: print(line, flush=True))
"""


def test_a_killed_pipeline_leaves_no_job(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path / "root"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with process:
        until(lambda: process.stdout.readline().endswith("sleeping\n"))
        [attempt] = attempts("r")
        until(lambda: attempt.status().replicas[0].incarnations)
        launcher, replica = attempt.status().launcher, replica_of(attempt)
        [server] = [child for child in psutil.Process(process.pid).children() if "preloaded" in child.cmdline()[-1]]
        assert psutil.pid_exists(replica)
        process.kill()
    until(lambda: attempt.alive().no)
    assert str(attempt.status().state) == "cancelled"
    until(lambda: not psutil.pid_exists(launcher) and not server.is_running())
    assert not psutil.pid_exists(replica)


def test_a_stopped_pipeline_stops_the_job_that_it_waits_for(tmp_path):
    @dsl.pipeline(name="stopped")
    def stopped():
        wait(job=launch(name="asleep", command=ASLEEP, workers=1).outputs["job"])

    codes, error, _ = failure(
        tmp_path, stopped, observer=WhenAsleep(lambda _: os.kill(os.getpid(), signal.SIGTERM)), run_id="r"
    )
    assert codes == {"launch": 0, "wait": 12}
    assert error.exit_code == 12
    assert states("r") == {"asleep": "cancelled"}


def test_a_job_that_cannot_be_launched(tmp_path):
    @dsl.pipeline(name="impossible")
    def impossible():
        launch(name="asleep", workers=1)

    codes, _, _ = failure(tmp_path, impossible, run_id="r")
    assert codes == {"launch": 2}
    assert attempts("r") == []


# --- cleanup


def test_the_finalizer_of_a_pipeline_that_failed_stops_what_it_launched(tmp_path):
    @dsl.pipeline(name="handled")
    def handled():
        with dsl.ExitHandler(cleanup()):
            launched = launch(name="asleep", command=ASLEEP, workers=1)
            train(name="failing", command=FAILING, workers=1).after(launched)

    codes, error, _ = failure(tmp_path, handled, run_id="r")
    assert codes == {"launch": 0, "train": 10, "cleanup": 0}
    assert error.exit_code == 10
    assert states("r") == {"asleep": "cancelled", "failing": "failed"}
    [removed] = outputs(tmp_path, "cleanup")["removed"]
    assert removed.startswith("asleep-")


def test_a_finalizer_leaves_the_jobs_of_other_scopes_alone(tmp_path):
    @dsl.pipeline(name="inner")
    def inner():
        launched = launch(name="inside", command=ASLEEP, workers=1)
        cleanup().after(launched).ignore_upstream_failure()

    @dsl.pipeline(name="outer")
    def outer():
        launched = launch(name="outside", command=HELLO, workers=1)
        done = inner().after(launched)
        wait(job=launched.outputs["job"]).after(done)

    do(outer, tmp_path, run_id="r")
    assert states("r") == {"inside": "cancelled", "outside": "succeeded"}


def test_scope_run(tmp_path):
    @dsl.pipeline(name="inner")
    def inner():
        cleanup(scope="run")

    @dsl.pipeline(name="outer")
    def outer():
        inner().after(launch(name="outside", command=ASLEEP, workers=1))

    do(outer, tmp_path, run_id="r")
    assert [name.rpartition("-")[0] for name in outputs(tmp_path, "cleanup")["removed"]] == ["outside"]


def test_nothing_to_clean_up(tmp_path):
    @dsl.pipeline(name="nothing")
    def nothing():
        first = cleanup()
        cleanup(scope="run").after(first)

    steps, lines = do(nothing, tmp_path)
    assert steps == [("cleanup", 0), ("cleanup-2", 0)]
    assert lines == ["There was nothing to clean up."] * 2
    assert outputs(tmp_path, "cleanup")["removed"] == []


@pytest.mark.parametrize("inputs", [{"scope": "all"}, {"on_end": "burn"}, {"system": "abacus"}])
def test_cleanup_with_wrong_inputs(inputs, tmp_path):
    @dsl.pipeline(name="wrong")
    def wrong():
        cleanup(**inputs)

    assert failure(tmp_path, wrong)[0] == {"cleanup": 2}


# --- train_and_finalize


def test_train_and_finalize_in_a_loop_and_a_condition(tmp_path):
    @dsl.pipeline(name="loop")
    def loop():
        with dsl.ParallelFor(["one", "two"]) as name:
            trained = train_and_finalize(name=name, command=HELLO, workers=1)
            with dsl.If(trained.outputs["failure"] == ""):
                train_and_finalize(name="third", command=["true"], workers=1)

    steps, _ = do(loop, tmp_path, run_id="r")
    assert [code for _, code in steps] == [0] * 8
    assert states("r") == {"one": "succeeded", "two": "succeeded", "third": "succeeded"}


def test_train_and_finalize_with_inputs_within_its_inputs(tmp_path):
    program = (
        "import os, sys; assert (sys.argv[1:], os.environ['BASE']) == (['--rate', '0.5', '--epochs=3'], '/data/a')"
    )

    @dsl.pipeline(name="inputs")
    def inputs(rate: float, folder: str, epochs: int = 3):
        args = ["--rate", rate, f"--epochs={epochs}"]
        env = {"BASE": f"/data/{folder}"}
        train_and_finalize(name="inner", command=["python", "-c", program], args=args, env=env, workers=1)
        train(name="plain", command=["python", "-c", program], args=args, env=env, workers=1)

    do(inputs, tmp_path, {"rate": 0.5, "folder": "a"}, run_id="r")
    assert states("r") == {"inner": "succeeded", "plain": "succeeded"}


def test_train_and_finalize_that_fails(tmp_path):
    @dsl.pipeline(name="failing")
    def failing():
        trained = train_and_finalize(name="failing", command=FAILING, workers=1)
        say(text=trained.outputs["failure"])

    codes, error, _ = failure(tmp_path, failing, run_id="r")
    assert {name.rpartition("/")[2]: code for name, code in codes.items()} == {"train": 10, "cleanup": 0}
    assert error.exit_code == 10


# --- evaluate_gate


@pytest.mark.parametrize(
    ("inputs", "decision"),
    [
        ({"threshold": 0.875}, "pass"),
        ({"threshold": 0.9}, "fail"),
        ({"threshold": 0.9, "direction": "at_most"}, "pass"),
        ({"threshold": 0.5, "direction": "at_most"}, "fail"),
    ],
)
def test_the_gate_decides_a_branch(inputs, decision, tmp_path):
    @dsl.pipeline(name="gate")
    def gate():
        trained = train(
            name="writer",
            command=[sys.executable, "-c", WRITER],
            workers=1,
            env={"PYTHONPATH": str(ROOT)},
            metric_tags={"accuracy": "eval/accuracy"},
        )
        by_job = evaluate_gate(metric="accuracy", job=trained.outputs["job"], **inputs)
        evaluate_gate(metric="accuracy", artifact=trained.outputs["metrics"], **inputs)
        with dsl.If(by_job.outputs["decision"] == "pass"):
            say(text="through")

    steps, lines = do(gate, tmp_path)
    assert ("through" in "\n".join(lines)) == (decision == "pass"), steps
    for task in ("evaluate-gate", "evaluate-gate-2"):
        assert outputs(tmp_path, task) == {"decision": decision, "value": 0.875}


@pytest.mark.parametrize(
    ("inputs", "code", "says"),
    [
        ({"metrics": {"loss": 0.5}, "threshold": 0.1, "required": True}, 0, "loss = 0.5 is at least 0.1: pass."),
        ({"metrics": {"loss": 0.5}, "threshold": 0.9, "required": True}, 10, "loss = 0.5 is not at least 0.9: fail."),
        ({"metrics": {"loss": 0.5}, "threshold": 0.9}, 0, "loss = 0.5 is not at least 0.9: fail."),
        ({"metrics": {"acc": 1, "f1": 1}, "threshold": 0.9}, 2, "loss is not among the metrics. Allowed: acc, f1."),
        ({"threshold": 0.9}, 2, "Allowed: none: connect"),
        ({"metrics": {"loss": "low"}, "threshold": 0.9}, 2, "metrics.loss: low is not a number"),
        (
            {"metrics": {"loss": 0.5}, "threshold": 0.9, "direction": "up"},
            2,
            "direction: up is unknown. Allowed: at_le",
        ),
        ({"metrics": {"loss": 0.5}, "job": {"metrics": {"loss": 9.0}}, "threshold": 1.0}, 0, "loss = 0.5 is not"),
    ],
)
def test_the_gate(inputs, code, says, tmp_path):
    @dsl.pipeline(name="gate")
    def gate():
        evaluate_gate(metric="loss", **inputs)

    lines = []
    try:
        run_and_collect(gate, tmp_path, lines)
        ended = 0
    except PipelineError as error:
        ended = error.exit_code
    assert ended == code
    assert says in "\n".join(lines)
