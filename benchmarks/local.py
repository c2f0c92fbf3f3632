"""What a local run costs over the processes it runs.

The job is a stand-in for training (two replicas that talk over TCP for a fraction of a second): TensorFlow's own start
varies by more than what is measured here.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from kfp import dsl

from benchmarks.measure import Row, median_difference, paired, seconds
from tfsteps.engines.local.runner import run
from tfsteps.kfp import train
from tfsteps.systems.local.ports import free_ports

PROGRAMS = pathlib.Path(__file__).parents[1] / "tests" / "programs"
BIN = pathlib.Path(sys.executable).parent
PAIRS = 15
STEPS = 6
LOUD_PAIRS = 7

STANDIN = ["python", str(PROGRAMS / "standin.py")]
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}  # as local runs have it
JOB = {"name": "bench", "command": STANDIN, "roles": {"worker": {"replicas": 2}}}
# The replica itself reads what its parent, the launcher, has used so far: the first field is nanoseconds on a CPU.
CPU_JOB = {"name": "bench", "command": ["sh", "-c", "cat /proc/$PPID/schedstat"], "roles": {"worker": {}}}


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield every row, cheapest first; `quick` leaves out the pipelines."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TFSTEPS_HOME"] = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling again each time is not what users see
        scratch = pathlib.Path(folder)
        yield _start_cpu(scratch)
        yield _overhead(scratch)
        yield from _output(scratch)
        if not quick:
            yield _overhead_per_step(scratch)


def _start_cpu(scratch: pathlib.Path) -> Row:
    """Measure what a step's launcher has used when its first replica starts."""
    used = []
    for i in range(PAIRS):
        outputs = {"outputFile": str(scratch / f"cpu-{i}" / "outputs.json")}
        task = {"inputs": {"parameterValues": {"spec": CPU_JOB}}, "outputs": outputs}
        command = [sys.executable, "-m", "tfsteps.steps.train.launcher", "--executor_input", json.dumps(task)]
        out = subprocess.run(command, check=False, capture_output=True, text=True).stdout
        line = next(line for line in out.splitlines() if line.startswith("[worker-0]"))
        used.append(int(line.split()[1]) / 1e9)
    return Row(
        "local_start_cpu_s",
        "CPU of a step's launcher until its first replica starts",
        statistics.median(used),
        "s",
        0.15,
        PAIRS,
    )


def _overhead(scratch: pathlib.Path) -> Row:
    """Measure what `tfsteps run` takes longer than the bare processes of its job."""
    job = scratch / "job.yaml"
    job.write_text(json.dumps(JOB))
    command = [BIN / "tfsteps", "run", job, "--no-tensorboard"]
    pairs = paired(lambda: subprocess.run(command, check=True, capture_output=True), bare, PAIRS)
    base = statistics.median(plain for _, plain in pairs)
    ratio = statistics.median(ours / plain for ours, plain in pairs)
    return Row(
        "local_overhead_s",
        "`tfsteps run` of two replicas over the bare processes",
        median_difference(pairs),
        "s",
        0.3,
        PAIRS,
        base,
        ratio,
    )


def _output(scratch: pathlib.Path) -> Iterator[Row]:
    """Measure a run whose replica prints a million lines, and what it takes itself beside the same into a file."""
    job, taken = scratch / "loud.yaml", scratch / "taken"
    command = ["python", str(PROGRAMS / "loud.py"), str(taken)]
    job.write_text(json.dumps({"name": "loud", "command": command, "roles": {"worker": {}}}))
    runs, pairs = [], []
    for _ in range(LOUD_PAIRS):
        with (scratch / "printed").open("wb") as file:
            run_command = [BIN / "tfsteps", "run", job, "--no-tensorboard"]
            runs.append(seconds(lambda: subprocess.run(run_command, check=True, stdout=file)))  # noqa: B023
            ours = float(taken.read_text())
            file.seek(0)
            subprocess.run([sys.executable, *command[1:]], check=True, stdout=file, env=os.environ | UNBUFFERED)
        pairs.append((ours, float(taken.read_text())))
    yield Row(
        "local_million_lines_s",
        "`tfsteps run` of a replica that prints 1 M lines of 100 bytes",
        statistics.median(runs),
        "s",
        2.0,
        LOUD_PAIRS,
    )
    yield Row(
        "local_output_slowdown",
        "the time that this replica takes to print them over the same into a file",
        statistics.median(ours / plain for ours, plain in pairs),
        "x",
        1.2,
        LOUD_PAIRS,
    )


def _overhead_per_step(scratch: pathlib.Path) -> Row:
    """Measure what each further step of a pipeline costs over its bare processes, in chains of one and of several."""
    one, several = (_chain_pairs(scratch, steps) for steps in (1, STEPS))
    costs = [(median_difference(pairs), statistics.median(plain for _, plain in pairs)) for pairs in (one, several)]
    (first, _), (all_of_them, base) = costs
    ratio = statistics.median(ours / plain for ours, plain in several)
    return Row(
        "local_overhead_per_step_s",
        "each further step of a pipeline over its bare processes",
        (all_of_them - first) / (STEPS - 1),
        "s",
        0.05,
        PAIRS,
        base / STEPS,
        ratio,
    )


def _chain_pairs(scratch: pathlib.Path, steps: int) -> list[tuple[float, float]]:
    @dsl.pipeline
    def chain():
        last = None
        for _ in range(steps):
            task = train(name="bench", command=STANDIN, workers=2)
            last = task.after(last) if last else task

    def ours():
        run(chain, {}, pipeline_root=scratch / "root", say=lambda _: None)

    return paired(ours, lambda: [bare() for _ in range(steps)], PAIRS)


def bare() -> None:
    """Run the same replicas without tfsteps."""
    with tempfile.TemporaryDirectory() as out:
        cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
        running = []
        for index in range(2):
            config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
            env = {**os.environ, "TF_CONFIG": config, "TFSTEPS_OUTPUT_DIR": out, "TFSTEPS_LOG_DIR": f"{out}/logs"}
            command = [sys.executable, PROGRAMS / "standin.py"]
            running.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL))
        if any(process.wait() for process in running):
            raise SystemExit("the bare replicas failed")
