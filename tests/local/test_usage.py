"""CPU and memory of real processes over time: in the file, the status, the output of a step, and the report."""

import json
import subprocess
import sys

import pytest

from tests.local.test_supervisor import python
from tests.support.jobs import run_job
from tests.unit.report.test_html import Reader
from tfsteps.runs.events import State
from tfsteps.runs.store import AttemptFolder
from tfsteps.runs.usage import Usage

MIB = 1 << 20
BURN = """
import os, time
hold = bytearray(b"x") * (200 << 20)
while sum(os.times()[:2]) < 4: pass
"""


@pytest.mark.shows("usage", "local")
def test_a_program_that_burns_a_core_and_holds_200_mib(monkeypatch):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "1s")
    result = run_job(python(BURN, "resources: {cpu: 4, memory: 210Mi}"))
    attempt = AttemptFolder.of(result.status.identity)
    assert result.status.state is State.SUCCEEDED
    (usage,) = Usage.read(attempt.folder).replicas
    assert usage.replica == "worker-0"
    assert 200 * MIB < usage.summary.memory_peak < 230 * MIB
    assert 3.0 < usage.summary.cpu_mean * usage.summary.seconds <= 4.2, "what ended after the last sample is not in it"
    assert 0.2 < usage.summary.cpu_peak < 1.2, "one thread"
    assert result.status.usage["worker"] == attempt.status().usage["worker"]
    assert result.status.usage["worker"].memory_peak == usage.summary.memory_peak
    text = Reader(attempt.report.read_text()).text
    assert "its memory limit: 2" in text
    assert "CPU of worker" in text
    assert "Memory of worker" in text
    assert "request = limit" in text


def test_each_replica_has_its_own_samples_over_restarts(monkeypatch):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "1s")
    code = """
    import os, pathlib, time
    again = pathlib.Path(os.environ["TFSTEPS_OUTPUT_DIR"], "again")
    time.sleep(2.5)
    if os.environ["TFSTEPS_INDEX"] == "1" and not again.exists():
        again.touch()
        raise SystemExit(200)
    """
    text = python(
        "\n".join(line[4:] for line in code.splitlines()), "restart: exit_code\nstrategy: multi_worker_mirrored"
    )
    text = text.replace("{worker: {}}", "{worker: {replicas: 2}}") + "systems: {local: {started: spawn}}\n"
    result = run_job(text)
    assert result.status.state is State.SUCCEEDED
    usages = Usage.read(AttemptFolder.of(result.status.identity).folder).replicas
    assert {usage.replica for usage in usages} == {"worker-0", "worker-1"}
    for usage in usages:
        assert all(sample.cpu < 2 for sample in usage.samples if sample.cpu is not None)
        assert [s.at for s in usage.samples] == sorted(s.at for s in usage.samples)


def test_a_step_reports_the_usage_of_its_job(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "1s")
    job = {"name": "nap", "command": ["sleep", "3"], "roles": {"worker": {}}}
    outputs = tmp_path / "outputs.json"
    task = {"inputs": {"parameterValues": {"spec": job}}, "outputs": {"outputFile": str(outputs)}}
    command = [sys.executable, "-m", "tfsteps.steps.train.launcher", "--executor_input", json.dumps(task)]
    subprocess.run(command, check=True, capture_output=True)
    usage = json.loads(outputs.read_text())["parameterValues"]["job"]["usage"]["worker"]
    assert usage["cpu_peak"] < 0.5
    assert 0 < usage["memory_peak"] < 50 * MIB


def test_samples_can_be_read_while_the_job_runs(monkeypatch):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "1s")
    seen = []

    def look(status):
        attempt = AttemptFolder.of(status.identity)
        seen.append(Usage.read(attempt.folder))

    run_job(python("import time\ntime.sleep(2.6)\nprint('now')\ntime.sleep(0.5)"), ("now", look))
    assert len(seen[0].replicas[0].samples) >= 2


def test_no_file_if_sampling_is_switched_off(monkeypatch):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "0")
    result = run_job(python("import time\ntime.sleep(1.6)"))
    attempt = AttemptFolder.of(result.status.identity)
    assert not attempt.usage.exists()
    assert result.status.usage == {}
    assert "CPU and memory" not in attempt.report.read_text()
