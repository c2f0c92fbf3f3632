"""What the processes of a replica use, measured on real processes in sessions of their own."""

import os
import subprocess
import sys
import time
import types

import pytest

from tests.support.waiting import until
from tfsteps import spec
from tfsteps.runs.events import ReplicaName
from tfsteps.systems.local import usage
from tfsteps.systems.local.usage import UsageMeter

MIB = 1 << 20
JOB = spec.from_plain({"name": "j", "command": ["c"], "roles": {"worker": {"replicas": 2}}})
CHILD = """
import os, pathlib, sys, time
hold = bytearray(b"x") * (int(sys.argv[1]) << 20)
while time.process_time() < float(sys.argv[2]): pass
pathlib.Path(sys.argv[3] + str(os.getpid())).touch()
time.sleep(300)
"""


@pytest.fixture
def replicas(tmp_path):
    """Start replicas: a shell in a session of its own, whose two children hold memory and use the CPU for a time."""
    started = []

    def start(index, mib=0, busy=0.0):
        child = [sys.executable, "-c", CHILD, str(mib), str(busy), str(tmp_path / f"done-{index}-")]
        process = subprocess.Popen(
            ["sh", "-c", '"$@" & "$@" & wait', "sh", *child], start_new_session=True, stdout=subprocess.DEVNULL
        )
        started.append(process)
        until(lambda: len(list(tmp_path.glob(f"done-{index}-*"))) == 2)  # both are done
        return types.SimpleNamespace(
            replica=ReplicaName("worker", index), pid=process.pid, started=time.time() - 10, peak=0
        )

    yield start
    for process in started:
        os.killpg(process.pid, 9)
        process.wait()


def samples(meter, slots):
    return {s.replica: s for event in meter.look(slots) for s in event.samples}


def test_all_processes_of_a_session_count(monkeypatch, replicas):
    monkeypatch.setattr(usage, "_FIRST_SECONDS", 0.0)
    slots = [replicas(0, mib=60, busy=1.0), replicas(1, mib=5)]
    read = samples(UsageMeter(JOB), slots)
    assert 120 * MIB < read["worker-0"].memory < 220 * MIB
    assert 10 * MIB < read["worker-1"].memory < 110 * MIB
    seconds = read["worker-0"].cpu * read["worker-0"].window
    assert 1.9 < seconds < 3.5, "two children, one second each"
    assert read["worker-1"].cpu * read["worker-1"].window < 1.0
    assert read["worker-0"].window >= 10, "the first window began with the process"


def test_children_that_have_ended_count(monkeypatch, tmp_path):
    monkeypatch.setattr(usage, "_FIRST_SECONDS", 0.0)
    child = [sys.executable, "-c", "import time\nwhile time.process_time() < 1: pass"]
    script = f'"$@"; touch {tmp_path}/done; sleep 300'
    with subprocess.Popen(["sh", "-c", script, "sh", *child], start_new_session=True) as process:
        try:
            until((tmp_path / "done").exists)
            slot = types.SimpleNamespace(
                replica=ReplicaName("worker", 0),
                pid=process.pid,
                started=time.time() - 10,
                peak=0,
            )
            read = samples(UsageMeter(JOB), [slot])["worker-0"]
        finally:
            os.killpg(process.pid, 9)
    assert 0.9 < read.cpu * read.window < 1.6
    assert read.memory < 20 * MIB


def test_the_next_sample_is_of_the_time_since_the_last(monkeypatch, replicas):
    monkeypatch.setattr(usage, "_FIRST_SECONDS", 0.0)
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "1s")
    slots, meter = [replicas(0, busy=0.5)], UsageMeter(JOB)
    assert samples(meter, slots)["worker-0"].cpu > 0.01
    assert samples(meter, slots) == {}, "none is due"
    time.sleep(1.1)
    (second,) = samples(meter, slots).values()
    assert second.cpu < 0.05, "it sleeps now"
    assert 1.0 <= second.window < 10


def test_a_restarted_replica_begins_at_zero(monkeypatch, replicas):
    monkeypatch.setattr(usage, "_FIRST_SECONDS", 0.0)
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "1s")
    meter = UsageMeter(JOB)
    samples(meter, [replicas(0, busy=0.5)])
    time.sleep(1.1)
    again = replicas(1, busy=0.5)
    again.replica = ReplicaName("worker", 0)
    (sample,) = samples(meter, [again]).values()
    assert 0.01 < sample.cpu * sample.window < 2


@pytest.mark.parametrize("interval", ["0", "1h"])
def test_nothing_is_read_before_it_is_due(monkeypatch, interval):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", interval)
    monkeypatch.setattr(usage, "_sessions", lambda _leaders: pytest.fail("read"))
    slot = types.SimpleNamespace(replica=ReplicaName("worker", 0), pid=os.getpid(), started=0.0, peak=0)
    assert list(UsageMeter(JOB).look([slot])) == []


def test_replicas_that_do_not_run_have_no_sample(monkeypatch):
    monkeypatch.setattr(usage, "_FIRST_SECONDS", 0.0)
    ended = types.SimpleNamespace(replica=ReplicaName("worker", 0), pid=2**22 + 1, started=time.time())
    assert list(UsageMeter(JOB).look([ended])) == []
