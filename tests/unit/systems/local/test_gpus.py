"""The usage of GPUs by the output of `nvidia-smi pmon`, and by programs in its place: this machine has no GPU."""

import os
import shutil
import time

import pytest

from tests.support.jobs import run_job
from tests.support.waiting import until
from tfsteps.runs.events import State
from tfsteps.runs.store import AttemptFolder
from tfsteps.runs.usage import Usage
from tfsteps.systems.local import usage
from tfsteps.systems.local.usage import GpuMeter, GpuReading, processes

MIB = 1 << 20

OLD = """\
# gpu        pid  type    sm   mem   enc   dec    fb   command
# Idx          #   C/G     %     %     %     %    MB   name
    0       4711     C    98    45     0     0  1024   python
    0       4712     C     -     -     -     -     9   python
    1       4711     C    50     4     0     0   512   python
    2          -     -     -     -     -     -     -   -
"""
NEW = """\
# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command
# Idx           #    C/G      %      %      %      %      %      %     MB     MB    name
    0       4711     C     98     45      -      -      -      -   1024      0    python train.py
    0       4712     C      -      -      -      -      -      -      9      0    python
    1       4711     C     50      4      -      -      -      -    512      0    python
    2          -     -      -      -      -      -      -      -      -      -    -
"""


@pytest.mark.parametrize("text", [OLD, NEW, OLD + OLD.partition("\n")[0] + "\n"])
def test_columns_are_found_by_their_names(text):
    assert processes(text) == {4711: GpuReading(1.48, 1536 * MIB), 4712: GpuReading(0.0, 9 * MIB)}


@pytest.mark.parametrize("text", ["", "\n", "No devices were found\n", "# gpu pid\n", "# gpu pid sm\n0 x 1\n0 1 N/A\n"])
def test_other_output_has_no_processes(text):
    assert processes(text) == {}


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Put a script in the place of nvidia-smi."""

    def install(script):
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    return install


def test_processes_belong_to_the_session_of_their_replica(nvidia_smi, tmp_path):
    asked = f"until [ -e {tmp_path}/answers ]; do sleep 0.01; done; test \"$*\" = 'pmon -c 1 -s um'"
    nvidia_smi(f"{asked} && echo '# gpu pid sm fb' && echo '0 {os.getpid()} 40 100'; echo '0 1 9 9'")
    meter, leader = GpuMeter(), os.getsid(0)
    assert meter.sessions([leader]) == {}, "it is asked in the background"
    (tmp_path / "answers").touch()
    assert until(lambda: meter.sessions([leader])) == {leader: GpuReading(0.4, 100 * MIB)}
    assert meter.sessions([leader + 1]) == {}
    assert meter.note == ""


def test_an_old_answer_is_not_used(nvidia_smi, monkeypatch):
    nvidia_smi(f"echo '# gpu pid sm fb'; echo '0 {os.getpid()} 40 100'")
    meter, leader = GpuMeter(), os.getsid(0)
    until(lambda: meter.sessions([leader]))
    monkeypatch.setattr(usage, "_OLD_SECONDS", 0.0)
    assert meter.sessions([leader]) == {}


@pytest.mark.parametrize(
    ("script", "note"),
    [
        (
            "echo 'Unable to determine the device handle'; exit 15",
            "nvidia-smi pmon failed: Unable to determine the device handle",
        ),
        ("exec sleep 60", "timed out after 0.2 seconds"),
    ],
)
def test_a_driver_that_fails_or_hangs_is_one_note_and_delays_nothing(nvidia_smi, monkeypatch, script, note):
    monkeypatch.setattr(usage, "_GPU_TIMEOUT", 0.2)
    nvidia_smi(script)
    meter = GpuMeter()
    before = time.monotonic()
    assert meter.sessions([os.getsid(0)]) == {}
    assert time.monotonic() - before < 5
    until(lambda: meter.note)
    assert meter.note.startswith("The usage of GPUs is not known: ")
    assert note in meter.note


JOB = "name: g\nroles: {worker: {resources: {gpu: 1}}}\ncommand: [sleep, '3']\n"


def test_a_job_that_requests_gpus_has_them_in_its_samples(nvidia_smi, monkeypatch, tmp_path):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "1s")
    pid = tmp_path / "pid"
    nvidia_smi(f"echo '# gpu pid sm fb'; echo \"0 $(cat {pid}) 40 100\"")
    status = run_job(JOB.replace("[sleep, '3']", f"[sh, -c, 'echo $$$$ > {pid}; exec sleep 3']")).status
    assert status.usage["worker"].gpu_peak == 0.4
    assert status.usage["worker"].gpu_memory_peak == 100 * MIB


def test_without_nvidia_smi_there_is_one_note(monkeypatch):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **where: None if name == "nvidia-smi" else which(name, **where))
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "1s")
    status = run_job(JOB).status
    assert status.state is State.SUCCEEDED
    usage = Usage.read(AttemptFolder.of(status.identity).folder)
    assert usage.notes == ["The usage of GPUs is not known: nvidia-smi is not installed."]
    assert len(usage.replicas[0].samples) >= 2
    assert not [warning for warning in status.warnings if "nvidia" in warning]
