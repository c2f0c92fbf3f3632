"""pipelines/mnist.py from its command line, as `make demo` starts it."""

import contextlib
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

from tfsteps import records
from tfsteps.systems.base import State

PIPELINES = pathlib.Path(__file__).parents[2] / "pipelines"


def command(*arguments, folder=PIPELINES):
    return [sys.executable, os.fspath(folder / "mnist.py"), *arguments]


def run(*arguments, folder=PIPELINES):
    """Run the pipeline to its end; return its exit code and what it printed."""
    done = subprocess.run(command(*arguments, folder=folder), capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    assert_nothing_left(done.stdout)
    return done.returncode, done.stdout


def assert_nothing_left(output):
    """No process of the run, and no TensorBoard."""
    run_id = re.search(r"^run (\w+)$", output, re.MULTILINE)[1]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            assert process.environ().get("TFSTEPS_RUN_ID") != run_id, process.cmdline()
    if found := re.search(r"^tensorboard (http\S+)$", output, re.MULTILINE):
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(found[1], timeout=2)
    for attempt in records.attempts(run_id):
        assert attempt.status().tensorboard_url == "", "the records name no address where nothing answers"


def steps(output):
    """Return the steps that ran, with their exit codes."""
    return dict(re.findall(r"^(\w+) +exit (\d+) ", output, re.MULTILINE))


def only_attempt():
    [run_id] = records.runs()
    [attempt] = records.attempts(run_id)
    return attempt


def with_training(tmp_path, program):
    """Return a copy of the pipeline whose training program is `program`."""
    folder = tmp_path / "pipelines"
    shutil.copytree(PIPELINES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "mnist_train.py").write_text(program)
    return folder


@pytest.mark.tensorflow
@pytest.mark.timeout(240)
def test_to_its_end():
    code, output = run()
    assert code == 0, output
    assert steps(output) == {"prepare": "0", "train": "0", "evaluate": "0", "export": "0"}
    exported = pathlib.Path(re.search(r"^model exported to (.+)$", output, re.MULTILINE)[1])
    assert (exported / "1" / "saved_model.pb").is_file()
    status = only_attempt().status()
    assert (status.state, status.identity.pipeline, status.identity.task) == (State.SUCCEEDED, "mnist", "train")
    assert status.metrics["accuracy"] > 0.9
    assert status.metrics["loss"] < 1
    for replica in ("chief-0", "worker-0", "worker-1", "evaluator-0"):
        assert f"[{replica}] step 300 " in output, "the log of every replica is streamed"
    for shown in (status.model, status.logs, f"{only_attempt().report}"):
        assert shown in output
        assert pathlib.Path(shown).exists()


@pytest.mark.tensorflow
@pytest.mark.timeout(240)
def test_parameter_servers_and_a_model_that_is_not_good_enough():
    code, output = run("--parameter-servers", "1", "--accuracy", "1.01")
    assert code == 0, output
    assert [replica.name for replica in only_attempt().status().replicas][-2:] == ["ps-0", "evaluator-0"]
    assert steps(output) == {"prepare": "0", "train": "0", "evaluate": "0"}, "nothing is exported"
    assert re.search(r"^accuracy 0\.9\d+, 1\.01 wanted: reject$", output, re.MULTILINE), output


def test_failed_training(tmp_path):
    code, output = run(folder=with_training(tmp_path, "raise SystemExit('no such optimizer')"))
    assert code == 10, output
    assert steps(output) == {"prepare": "0", "train": "10"}, "nothing is evaluated or exported"
    assert output.splitlines()[-1].startswith("mnist failed: step train failed with exit code 10")
    assert "no such optimizer" in output
    assert only_attempt().status().state is State.FAILED
    assert "failed" in only_attempt().report.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_stopped(number, tmp_path):
    folder = with_training(tmp_path, "import time\nprint('sleeping', flush=True)\ntime.sleep(600)")
    with subprocess.Popen(command(folder=folder), stdout=subprocess.PIPE, text=True) as process:
        output = until(process.stdout, "sleeping")
        process.send_signal(number)
        output += process.stdout.read()
    assert process.returncode == 12, output
    assert steps(output) == {"prepare": "0", "train": "12"}
    assert output.splitlines()[-1].startswith("mnist was stopped")
    assert only_attempt().status().state is State.CANCELLED
    assert_nothing_left(output)


def test_killed(tmp_path):
    folder = with_training(tmp_path, "import time\nprint('sleeping', flush=True)\ntime.sleep(600)")
    with subprocess.Popen(command(folder=folder), stdout=subprocess.PIPE, text=True) as process:
        output = until(process.stdout, "sleeping")
        process.kill()
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        with contextlib.suppress(AssertionError):
            [run_id] = records.runs()
            assert not [p for p in psutil.process_iter() if run_of(p) == run_id]
            return
        time.sleep(0.1)
    raise AssertionError(f"processes are left 20 s after SIGKILL:\n{output}")


def run_of(process):
    with contextlib.suppress(psutil.Error):
        return process.environ().get("TFSTEPS_RUN_ID")


def test_tensorboard_is_kept_until_a_signal_comes(tmp_path):
    folder = with_training(tmp_path, "raise SystemExit('no such optimizer')")
    with subprocess.Popen(command("--tensorboard", folder=folder), stdout=subprocess.PIPE, text=True) as process:
        output = until(process.stdout, "TensorBoard stays up")
        url = re.search(r"stays up at (http\S+);", output)[1]
        assert only_attempt().status().tensorboard_url == url
        with urllib.request.urlopen(f"{url}data/environment") as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        output += process.stdout.read()
    assert process.returncode == 10, "that of the pipeline"
    assert_nothing_left(output)


def until(lines, text):
    """Return the lines up to the first one that holds `text`."""
    seen = []
    for line in lines:
        seen.append(line)
        if text in line:
            return "".join(seen)
    raise AssertionError("".join(seen))
