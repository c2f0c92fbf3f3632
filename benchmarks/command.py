"""CPU of the command's own start: what a user waits for at each call, beside what its parser costs alone."""

import os
import pathlib
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.measure import PARSER, Row, child_cpu

COMMAND = str(pathlib.Path(sys.executable).with_name("tfsteps"))
TIMES = {True: 3, False: 15}
JOB = "name: mnist\nimage: registry.example/train:1\ncommand: [python, train.py]\nroles: {worker: {replicas: 2}}\n"
COMPLETED = {"complete": "", "complete_run": "show ", "complete_value": "logs --on "}
"""What is typed before a completion, by the row's name: of a command, of a run's id, of an option's value."""


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield a row for each command, in an empty folder of runs; `quick` takes fewer runs of each."""
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.yaml"
        job.write_text(JOB)
        tfsteps = [
            ("version", [COMMAND, "--version"], 1.5),
            ("help", [COMMAND, "--help"], 1.5),
            ("validate", [COMMAND, "validate", str(job), "--system", "kubeflow"], 2.25),
            ("runs", [COMMAND, "runs"], 2.25),
            *((name, [COMMAND], 1.5) for name in COMPLETED),
        ]
        kubectl = [("kubectl_version", ["kubectl", "version", "--client"], None)] if shutil.which("kubectl") else []
        for name, command, goal in [*tfsteps, *kubectl]:
            environment = {**os.environ, "TFSTEPS_HOME": folder}
            what = f"`{' '.join([pathlib.Path(command[0]).name, *command[1:2]])}`"
            if (typed := COMPLETED.get(name)) is not None:
                words = {"COMP_WORDS": f"tfsteps {typed}", "COMP_CWORD": str(len(typed.split(" ")))}
                environment |= {"_TFSTEPS_COMPLETE": "complete_bash", **words}
                what = f"the completion of `tfsteps {typed}`"
            pairs = [
                (child_cpu(command, environment), child_cpu(PARSER, environment)) for _ in range(TIMES[quick] + 1)
            ][1:]
            ours, bare = (statistics.median(values) for values in zip(*pairs, strict=True))
            what = f"CPU of {what}; baseline: Python that imports typer and rich"
            yield Row(f"cli_{name}_cpu_s", what, ours, "s", goal, len(pairs), bare, ours / bare, of_baseline=True)
