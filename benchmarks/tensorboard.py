"""What a TensorBoard of a cluster costs: the program of its container, beside TensorBoard with TensorFlow installed.

Both serve the same event files: ten runs of two thousand points each.
"""

import contextlib
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence

import psutil

from benchmarks.measure import Row
from tests.support.event_writer import ScalarWriter

RUNS = {True: 2, False: 5}
_TIMEOUT = 120.0


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield the time until the first answer and the memory of all processes; `quick` takes fewer runs."""
    with tempfile.TemporaryDirectory() as folder:
        _write(pathlib.Path(folder))
        ours = ["-m", "tfsteps.tensorboard.service", folder, "--port"]
        theirs = ["-m", "tensorboard.main", "--logdir", folder, "--port"]
        pairs = [(_measured(ours), _measured(theirs)) for _ in range(RUNS[quick] + 1)][1:]
    (ready, memory), (their_ready, their_memory) = (
        [statistics.median(item) for item in zip(*side, strict=True)] for side in zip(*pairs, strict=True)
    )
    what = "from the start of TensorBoard's program to its first answer; baseline: `tensorboard` beside TensorFlow"
    yield Row("tensorboard_ready", what, ready, "s", 3, len(pairs), their_ready, ready / their_ready)
    what = "memory (PSS) of TensorBoard and its data server, ten runs shown; baseline: `tensorboard` beside TensorFlow"
    yield Row("tensorboard_memory", what, memory, "MiB", 110, len(pairs), their_memory, memory / their_memory)


def _write(folder: pathlib.Path) -> None:
    for run in range(10):
        with ScalarWriter(folder / f"run-{run}") as writer:
            for step in range(2000):
                writer.scalar("loss", 1 / (step + 1), step)


def _measured(arguments: Sequence[str]) -> tuple[float, float]:
    """Return seconds until the first answer, and MiB once all runs are shown."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    began = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, *arguments, str(port)], **quiet) as process:
        try:
            _answer(port, "data/environment")
            ready = time.perf_counter() - began
            while _answer(port, "data/runs").count(b"run-") < 10:
                time.sleep(0.1)
            everything = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            return ready, sum(item.memory_full_info().pss for item in everything) / 2**20
        finally:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()


def _answer(port: int, path: str) -> bytes:
    end = time.monotonic() + _TIMEOUT
    while time.monotonic() < end:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer,
        ):
            return answer.read()
        time.sleep(0.02)
    raise SystemExit(f"TensorBoard does not answer on port {port}")
