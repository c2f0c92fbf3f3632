"""Every pipeline for Kubeflow runs here from its command line, pipelines/mnist.py as `make demo` starts it."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import psutil
import pytest

from tests.support.event_writer import by_shell
from tests.support.processes import started
from tests.support.waiting import read_until, until
from tfsteps.runs import store
from tfsteps.runs.events import State

PIPELINES = pathlib.Path(__file__).parents[2] / "pipelines"


def command(*arguments, folder=PIPELINES, pipeline="mnist"):
    return [sys.executable, os.fspath(folder / f"{pipeline}.py"), *arguments]


def run(*arguments, folder=PIPELINES, pipeline="mnist"):
    """Run the pipeline to its end; return its exit code and what it printed."""
    words = command(*arguments, folder=folder, pipeline=pipeline)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    assert_nothing_left(done.stdout)
    return done.returncode, done.stdout


def assert_nothing_left(output):
    """No process of the run, and no TensorBoard."""
    run_id = re.search(r"^run (\S+)$", output, re.MULTILINE)[1]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            assert process.environ().get("TFSTEPS_RUN_ID") != run_id, process.cmdline()
    if match := re.search(r"^tensorboard (http\S+)$", output, re.MULTILINE):
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(match[1], timeout=60)
    for attempt in store.attempts(run_id):
        assert attempt.status().tensorboard_url == "", "the records name no address where nothing answers"


def steps(output):
    """Return the steps that ran, with their exit codes."""
    return dict(re.findall(r"^([\w/-]+) +exit (\d+) ", output, re.MULTILINE))


def attempts():
    [run_id] = store.runs()
    return store.attempts(run_id)


def only_attempt():
    [attempt] = attempts()
    return attempt


def with_training(tmp_path, program):
    """Return a copy of the pipeline whose training program is `program`."""
    folder = tmp_path / "pipelines"
    shutil.copytree(PIPELINES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "mnist_train.py").write_text(program)
    return folder


@pytest.mark.tensorflow
def test_to_its_end():
    code, output = run()
    assert code == 0, output
    assert steps(output) == {"prepare": "0", "train": "0", "evaluate": "0", "export": "0"}
    exported = pathlib.Path(re.search(r"^\[export\] model exported to (.+)$", output, re.MULTILINE)[1])
    assert (exported / "1" / "saved_model.pb").is_file()
    status = only_attempt().status()
    assert (status.state, status.identity.pipeline, status.identity.task) == (State.SUCCEEDED, "mnist", "train")
    assert status.metrics["accuracy"] > 0.9
    assert status.metrics["loss"] < 1
    for replica in ("chief-0", "worker-0", "worker-1", "evaluator-0"):
        assert f"[train/{replica}] step 300 " in output, "the log of every replica is streamed"
    for shown in (status.model, status.logs, f"{only_attempt().report}"):
        assert shown in output
        assert pathlib.Path(shown).exists()


@pytest.mark.tensorflow
def test_parameter_servers_and_a_model_that_is_not_good_enough():
    code, output = run("--parameter-servers", "1", "--workers", "1", "--examples", "500", "--accuracy", "1.01")
    assert code == 0, output
    assert [replica.name for replica in only_attempt().status().replicas][-2:] == ["ps-0", "evaluator-0"]
    assert steps(output) == {"prepare": "0", "train": "0", "evaluate": "0"}, "nothing is exported"
    # how good it is depends on which worker came when: parameter servers take gradients of an older model, too
    assert re.search(r"^\[evaluate\] accuracy 0\.\d+, 1\.01 wanted: reject$", output, re.MULTILINE), output


@pytest.mark.tensorflow
def test_parameter_server():
    few = ("--workers", "1", "--servers", "1", "--examples", "500", "--settings", '{"EPOCHS": "1"}')
    code, output = run(*few, pipeline="parameter_server")
    assert code == 0, output
    assert steps(output) == {"prepare": "0", "train": "0", "evaluate": "0"}
    names = [replica.name for replica in only_attempt().status().replicas]
    assert names == ["chief-0", "worker-0", "ps-0", "evaluator-0"]


@pytest.mark.tensorflow
def test_fan_out():
    trials = [{"LEARNING_RATE": rate, "EPOCHS": "1"} for rate in ("0.0001", "0.5")]
    code, output = run("--examples", "500", "--trials", json.dumps(trials), pipeline="fan_out")
    assert code == 0, output
    loop = {f"for-loop-1-iteration-{i}/train": "0" for i in range(len(trials))}
    assert steps(output) == {"prepare": "0", **loop, "best": "0", "export": "0"}
    chosen = max((attempt.status() for attempt in attempts()), key=lambda status: status.metrics["accuracy"])
    assert re.search(rf"^\[best\] the best of 2: {chosen.job}, .*'LEARNING_RATE': '0.5'", output, re.MULTILINE), output
    exported = pathlib.Path(re.search(r"^\[export\] model exported to (.+)$", output, re.MULTILINE)[1])
    assert (exported / "1/saved_model.pb").read_bytes() == pathlib.Path(chosen.model, "saved_model.pb").read_bytes()


@pytest.mark.tensorflow
def test_nightly():
    code, output = run("--accuracy", "0", "--examples", "500", "--settings", '{"EPOCHS": "1"}', pipeline="nightly")
    assert code == 0, output
    assert steps(output) == {**NOT_PROMOTED, "promote": "0"}
    folder = pathlib.Path(re.search(r"^\[promote\] model promoted to (.+)$", output, re.MULTILINE)[1])
    assert folder.name == str(int(only_attempt().status().created))
    assert (folder / "saved_model.pb").is_file()


NOT_PROMOTED = {"prepare": "0", "check": "0", "train": "0", "evaluate-gate": "0"}


def test_nightly_with_a_model_that_is_not_good_enough(tmp_path):
    program = (
        "import os, subprocess\nos.environ['TFSTEPS_LOG_DIR'] += '/eval'\n"
        f"subprocess.run(['sh', '-c', {by_shell('accuracy', 0.5)!r}], check=True)\n"
    )
    code, output = run("--examples", "500", pipeline="nightly", folder=with_training(tmp_path, program))
    assert code == 0, output
    assert steps(output) == NOT_PROMOTED
    assert only_attempt().status().metrics == {"accuracy": 0.5}


def test_nightly_with_data_that_are_not_fit():
    code, output = run("--examples", "500", "--least", "501", pipeline="nightly")
    assert code == 10, output
    assert steps(output) == {"prepare": "0", "check": "1"}, "nothing is trained"
    assert "is not fit to train with: there are 500 digits, not 501 or more" in output


@pytest.mark.tensorflow
def test_side_by_side():
    settings = [f"--{who}={json.dumps({'EPOCHS': '1', 'HIDDEN': size})}" for who, size in FIGHTERS.items()]
    code, output = run("--examples", "500", *settings, pipeline="side_by_side")
    assert code == 0, output
    assert steps(output) == {"prepare": "0", "train": "0", "train-2": "0", "compare": "0"}
    statuses = [attempt.status() for attempt in attempts()]
    assert len({status.job for status in statuses}) == len({status.output for status in statuses}) == 2
    for status, size in zip(sorted(statuses, key=lambda status: status.identity.task), FIGHTERS.values(), strict=True):
        assert json.loads(pathlib.Path(status.output, "settings.json").read_text())["HIDDEN"] == size
        assert pathlib.Path(status.model, "saved_model.pb").is_file()


FIGHTERS = {"champion": "16", "challenger": "32"}


def test_finalizer():
    code, output = run(pipeline="finalizer")
    assert code == 10, output
    assert steps(output) == {"train-and-finalize/train": "10", "train-and-finalize/cleanup": "0"}
    assert "step 3 loss nan: the learning rate is too high" in output
    assert only_attempt().status().state is State.FAILED


def test_finalizer_of_a_training_that_ends_well():
    code, output = run("--settings", "{}", pipeline="finalizer")
    assert code == 0, output
    assert steps(output) == {"train-and-finalize/train": "0", "train-and-finalize/cleanup": "0"}


def test_an_input_that_is_not_json_is_refused():
    done = subprocess.run(
        command("--settings", "fast", pipeline="nightly"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "argument --settings: 'fast' is not JSON" in done.stderr
    assert store.runs() == []


def test_failed_training(tmp_path):
    code, output = run(folder=with_training(tmp_path, "raise SystemExit('no such optimizer')"))
    assert code == 10, output
    assert steps(output) == {"prepare": "0", "train": "10"}, "nothing is evaluated or exported"
    assert output.splitlines()[-1].startswith("mnist failed after ")
    assert "step train failed with exit code 10" in output.splitlines()[-1]
    assert "no such optimizer" in output
    assert only_attempt().status().state is State.FAILED
    assert "failed" in only_attempt().report.read_text()
    page = pathlib.Path(re.search(r"^run report +(/.+)$", output, re.MULTILINE)[1])
    text = page.read_text()
    assert page.parent == only_attempt().folder.parents[1]
    assert 'href="train/0/report.html"' in text
    assert "no job" in text, "the step `prepare`"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_stopped(number, tmp_path):
    folder = with_training(tmp_path, "import time\nprint('sleeping', flush=True)\ntime.sleep(600)")
    with started(command(folder=folder), stdout=subprocess.PIPE, text=True) as process:
        output = read_until(process, "sleeping")
        process.send_signal(number)
        output += process.stdout.read()
    assert process.returncode == 12, output
    assert steps(output) == {"prepare": "0", "train": "12"}
    assert output.splitlines()[-1].startswith("mnist cancelled")
    assert only_attempt().status().state is State.CANCELLED
    assert_nothing_left(output)


def test_killed(tmp_path):
    folder = with_training(tmp_path, "import time\nprint('sleeping', flush=True)\ntime.sleep(600)")
    with started(command(folder=folder), stdout=subprocess.PIPE, text=True) as process:
        output = read_until(process, "sleeping")
        process.kill()
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        with contextlib.suppress(AssertionError):
            [run_id] = store.runs()
            assert not [p for p in psutil.process_iter() if run_of(p) == run_id]
            return
        time.sleep(0.1)
    raise AssertionError(f"processes are left 60 s after SIGKILL:\n{output}")


def run_of(process):
    with contextlib.suppress(psutil.Error):
        return process.environ().get("TFSTEPS_RUN_ID")


def answers(url):
    try:
        with urllib.request.urlopen(f"{url}data/environment", timeout=60) as answer:
            return answer.status == 200
    except urllib.error.URLError:
        return False


def test_tensorboard_is_kept_until_a_signal_comes(tmp_path):
    folder = with_training(tmp_path, "raise SystemExit('no such optimizer')")
    with started(command("--tensorboard", folder=folder), stdout=subprocess.PIPE, text=True) as process:
        output = read_until(process, "TensorBoard stays up")
        url = re.search(r"stays up until Ctrl-C: (http\S+)$", output)[1]
        assert only_attempt().status().tensorboard_url == url
        until(lambda: answers(url))  # its start is not waited for
        process.send_signal(signal.SIGINT)
        output += process.stdout.read()
    assert process.returncode == 10, "that of the pipeline"
    assert_nothing_left(output)
