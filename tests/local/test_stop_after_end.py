"""A step that is asked to end when its job has ended already writes all that it has to, and ends as its job did."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.support.waiting import until
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import AttemptFolder

RUN, TASK = "6d1f3d6e-8d5f-4c53-8b0e-3f6f5a1c2b7d", "0b9a5a3e-7f3b-4b53-9d47-1a2b3c4d5e6f"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture
def output(tmp_path):
    """The file of a step's outputs, where the back end of Kubeflow Pipelines has it."""
    file = tmp_path / "pipeline" / RUN / "train" / TASK / "executor_output.json"
    file.parent.mkdir(parents=True)
    return file


def started(output, *command):
    job = {"name": "last", "command": ["sh", "-c", *command], "roles": {"worker": {}}}
    executor_input = {"inputs": {"parameterValues": {"spec": job}}, "outputs": {"outputFile": str(output)}}
    program = [sys.executable, "-m", "tfsteps.steps.train.launcher", "--executor_input", json.dumps(executor_input)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


def signalled(process, pipe):
    """Send every signal to a step that waits for somebody to read `pipe`, and return what it writes then."""
    attempt = AttemptFolder.of(Identity(run=RUN, task=TASK))
    until(lambda: (attempt.folder / "status.json").exists() and attempt.status().state.terminal)
    step = psutil.Process(process.pid)
    until(lambda: step.status() == psutil.STATUS_SLEEPING and does_nothing(step))
    for number in SIGNALS:
        process.send_signal(number)
        time.sleep(0.1)  # or they would be one
    assert process.poll() is None, process.stdout.read()
    return pipe.read_bytes()


def does_nothing(step):
    before = step.cpu_times()
    time.sleep(0.5)
    return step.cpu_times() == before


@pytest.mark.parametrize(("script", "code"), [("true", 0), ("exit 3", 10)])
def test_while_it_writes_its_outputs(script, code, output):
    os.mkfifo(output)
    with started(output, script) as process:
        written = json.loads(signalled(process, output))
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == code, printed
    assert written["parameterValues"]["job"]["state"] == ("failed" if code else "succeeded")


def test_while_it_writes_its_report(output):
    with started(output, "echo up; sleep 600") as process:
        attempt = AttemptFolder.of(Identity(run=RUN, task=TASK))
        for line in process.stdout:
            if "] up" in line:
                break
        os.mkfifo(attempt.report)
        process.send_signal(signal.SIGTERM)
        assert b"<html" in signalled(process, attempt.report)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 12, printed
    assert json.loads(output.read_text())["parameterValues"]["job"]["state"] == "cancelled"
