"""What it costs to read a log on a cluster, beside `kubectl logs -f` on the same pod at the same time.

One replica prints a million lines of 100 bytes in ten seconds. The launcher saves them and prints them; kubectl, if
there is one, prints them.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator

from benchmarks.kubernetes import Environment, cpu_seconds
from benchmarks.measure import Row
from tests.cluster import paths
from tfsteps.kube.resource import PODS

LINES = {True: 200_000, False: 1_000_000}
BLOCK = 10_000  # lines in a tenth of a second
TEXT = "x" * 91
WHAT = "a replica that prints 10 MB a second in lines of 100 bytes"


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield the cost of a megabyte and the lines that are lacking; `quick` prints fewer."""
    os.environ.setdefault("KUBECONFIG", str(paths.KUBECONFIG))
    lines = LINES[quick]
    with tempfile.TemporaryDirectory() as name, Environment(pathlib.Path(name)) as environment:
        folder = pathlib.Path(name)
        launcher = environment.start("logs", _program(lines))
        kubectl = _kubectl(environment, folder / "kubectl.log")
        cpu = _cpu_until_end({"launcher": launcher, **({"kubectl": kubectl} if kubectl else {})})
        if launcher.returncode:
            raise SystemExit(f"logs failed: {environment.log('logs')[-2000:]}")
        saved = next((folder / "logs" / "home").glob("runs/*/*/*/log"))
        read = {"launcher": _count(saved), **({"kubectl": _count(folder / "kubectl.log")} if kubectl else {})}
    cost = {name: cpu[name] / (read[name] * 100 / 1e6) * 1e3 for name in read}  # the node drops lines of such a log
    lacking = {name: lines - count for name, count in read.items()}
    ours, peer = cost["launcher"], cost.get("kubectl")
    what = f"CPU of the launcher for a megabyte of log that it read, from TLS to the saved file and stdout: {WHAT}"
    yield Row("logs_cluster", f"{what}; baseline: `kubectl logs -f`", ours, "ms", 50, 1, peer, peer and ours / peer)
    what = f"lines that the saved log lacks of {lines}: {WHAT}; baseline: what `kubectl logs -f` lacks"
    yield Row("logs_cluster_lacking", what, lacking["launcher"], "lines", 0, 1, lacking.get("kubectl"))


def _program(lines: int) -> str:
    """Return a shell program that prints so many lines, 100,000 a second; it lives on until both have read them."""
    block = f"yes {TEXT} | head -n {BLOCK} | awk '{{ printf \"%08d %s\\n\", n + NR, $0 }}' n=$i"
    return f"i=0; while [ $i -lt {lines} ]; do ({block}) & sleep 0.1; wait; i=$((i + {BLOCK})); done; sleep 5"


def _kubectl(environment: Environment, out: pathlib.Path) -> subprocess.Popen | None:
    """Start `kubectl logs -f` on the job's pod as soon as it runs; None where there is no kubectl."""
    program = shutil.which("kubectl")
    while True:
        pods = environment.api.list(PODS, environment.namespace).get("items") or []
        if running := [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]:
            break
        time.sleep(0.05)
    if not program:
        return None
    with out.open("wb") as file:
        return subprocess.Popen([program, "logs", "-f", "-n", environment.namespace, running[0]], stdout=file)


def _cpu_until_end(processes: dict[str, subprocess.Popen]) -> dict[str, float]:
    """Wait for the processes; return the CPU that each had used when it was looked at last, a tenth before its end."""
    used = dict.fromkeys(processes, 0.0)
    while any(process.poll() is None for process in processes.values()):
        for name, process in processes.items():
            now = cpu_seconds(process.pid)
            used[name] = max(used[name], now) if now == now else used[name]  # noqa: PLR0124  not a number
        time.sleep(0.05)
    return used


def _count(file: pathlib.Path) -> int:
    """Return how many lines of the program are in a file."""
    with file.open("rb") as lines:
        return sum(TEXT.encode() in line for line in lines)
