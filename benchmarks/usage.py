"""What sampling the usage of four local replicas costs their launcher."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator

from benchmarks.measure import Row
from tfsteps import spec
from tfsteps.launcher.recorder import UsageWriter
from tfsteps.runs.events import ReplicaName
from tfsteps.systems.local.usage import SECONDS, UsageMeter

REPLICAS = 4
PROCESSES = 4  # of each replica
SAMPLES = 200
JOB = spec.from_plain({"name": "bench", "command": ["c"], "roles": {"worker": {"replicas": REPLICAS}}})


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield the share of a core that the launcher uses to read and to save a sample of each replica every 5 s."""
    child = [sys.executable, "-c", "import time; time.sleep(600)"]
    command = ["sh", "-c", " ".join(['"$@" &'] * PROCESSES) + " wait", "sh", *child]
    processes = [subprocess.Popen(command, start_new_session=True) for _ in range(REPLICAS)]
    try:
        time.sleep(1)
        seconds = _cpu_per_sample(processes, SAMPLES // 10 if quick else SAMPLES)
    finally:
        for process in processes:
            os.killpg(process.pid, 9)
            process.wait()
    others = len([path for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()])
    yield Row(
        "usage_cpu_percent",
        f"CPU of a launcher for the usage of {REPLICAS} replicas of {PROCESSES} processes each, every {SECONDS:g} s, "
        f"on a machine with {others} processes",
        100 * seconds / SECONDS,
        "%",
        0.5,
        SAMPLES,
    )


def _cpu_per_sample(processes: list[subprocess.Popen], count: int) -> float:
    slots = [
        types.SimpleNamespace(replica=ReplicaName("worker", index), pid=process.pid, started=time.time(), peak=0)
        for index, process in enumerate(processes)
    ]
    meter = UsageMeter(JOB)
    with tempfile.TemporaryDirectory() as folder:
        writer = UsageWriter(pathlib.Path(folder) / "usage.jsonl")
        before = time.process_time()
        for _ in range(count):
            samples = meter.sample(slots)
            assert len(samples) == REPLICAS
            writer.write(samples)
        return (time.process_time() - before) / count
