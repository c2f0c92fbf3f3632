"""CPU of the command's own start: what a user waits for at each call, beside what its parser costs alone."""

import os
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.measure import PARSER, Row, child_cpu

COMMAND = str(pathlib.Path(sys.executable).with_name("tfsteps"))
TIMES = {True: 3, False: 15}
JOB = "name: mnist\nimage: registry.example/train:1\ncommand: [python, train.py]\nroles: {worker: {replicas: 2}}\n"
COMPLETION = {"_TFSTEPS_COMPLETE": "complete_bash", "COMP_WORDS": "tfsteps r", "COMP_CWORD": "1"}


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield a row for each command, in an empty folder of runs; `quick` takes fewer runs of each."""
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.yaml"
        job.write_text(JOB)
        for name, words, goal, more in (
            ("version", ["--version"], 1.5, {}),
            ("help", ["--help"], 1.5, {}),
            ("validate", ["validate", str(job), "--system", "kubeflow"], 2.25, {}),
            ("runs", ["runs"], 2.25, {}),
            ("complete", [], 1.5, COMPLETION),
        ):
            environment = {**os.environ, "TFSTEPS_HOME": folder, **more}
            pairs = [
                (child_cpu([COMMAND, *words], environment), child_cpu(PARSER, environment))
                for _ in range(TIMES[quick] + 1)
            ][1:]
            ours, bare = (statistics.median(values) for values in zip(*pairs, strict=True))
            what = f"CPU of `tfsteps {' '.join(words[:1])}`" if words else "CPU of a completion of a command's name"
            what += "; baseline: Python that imports typer and rich"
            yield Row(f"cli_{name}_cpu_s", what, ours, "s", goal, len(pairs), bare, ours / bare, of_baseline=True)
