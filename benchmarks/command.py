"""CPU of the command's own start: what a user waits for at each call, beside what its parser costs alone."""

import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from benchmarks.measure import Row

COMMAND = str(pathlib.Path(sys.executable).with_name("tfsteps"))
PARSER = [sys.executable, "-c", "import typer, rich"]
PARSER_SECONDS = 0.08  # CPU of PARSER where the goals were set; on a machine where it takes longer, they are more
TIMES = {True: 3, False: 15}
JOB = "name: mnist\nimage: registry.example/train:1\ncommand: [python, train.py]\nroles: {worker: {replicas: 2}}\n"
COMPLETION = {"_TFSTEPS_COMPLETE": "complete_bash", "COMP_WORDS": "tfsteps r", "COMP_CWORD": "1"}


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield a row for each command, in an empty folder of runs; `quick` takes fewer runs of each."""
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.yaml"
        job.write_text(JOB)
        for name, words, goal, more in (
            ("version", ["--version"], 0.12, {}),
            ("help", ["--help"], 0.12, {}),
            ("validate", ["validate", str(job), "--system", "kubeflow"], 0.18, {}),
            ("runs", ["runs"], 0.18, {}),
            ("complete", [], 0.12, COMPLETION),
        ):
            environment = {**os.environ, "TFSTEPS_HOME": folder, **more}
            pairs = [
                (_cpu([COMMAND, *words], environment), _cpu(PARSER, environment)) for _ in range(TIMES[quick] + 1)
            ][1:]
            ours, bare = (statistics.median(values) for values in zip(*pairs, strict=True))
            what = f"CPU of `tfsteps {' '.join(words[:1])}`" if words else "CPU of a completion of a command's name"
            what += f"; baseline: Python that imports typer and rich; goal: {goal / PARSER_SECONDS:g} of it"
            yield Row(f"cli_{name}_cpu_s", what, ours, "s", goal / PARSER_SECONDS * bare, len(pairs), bare, ours / bare)


def _cpu(command: Sequence[str], environment: dict[str, str]) -> float:
    """Return the CPU of a process, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
