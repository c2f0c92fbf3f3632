"""Paired runs, their medians, and how fast the machine is that they were taken on."""

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

PARSER = [sys.executable, "-c", "import typer, rich"]
PARSER_SECONDS = 0.08
"""CPU of PARSER on the machine where the goals in seconds were set."""


@dataclass(frozen=True)
class Row:
    """One measured figure.

    Attributes:
        name: Its key in results.json.
        what: What it is, for people.
        value: The figure.
        unit: Of value and baseline.
        goal: What it should not exceed, on the machine where goals were set; None = it is somebody else's.
        runs: How many counted.
        baseline: What it was measured against; None = nothing.
        ratio: With over without; None = not meaningful.
        of_baseline: Whether the goal is a multiple of the baseline.
    """

    name: str
    what: str
    value: float
    unit: str
    goal: float | None
    runs: int
    baseline: float | None = None
    ratio: float | None = None
    of_baseline: bool = False

    def result(self, slower: float) -> dict[str, object]:
        """Return the row as results.json holds it.

        `goal` is that of this machine, which is so many times slower than the one where goals were set, and `goal_is`
        how it was found; empty = it is the same on each machine.
        """
        goal, goal_is = self.goal, ""
        if goal is not None and self.of_baseline and self.baseline is not None:
            goal, goal_is = goal * self.baseline, f"{goal:g} of the baseline"
        elif goal is not None and self.unit in ("s", "ms"):
            goal, goal_is = goal * slower, f"{goal:g} {self.unit} x {slower:.2f}"
        return {
            "what": self.what,
            "value": round(self.value, 4),
            "unit": self.unit,
            "goal": None if goal is None else round(goal, 4),
            "goal_is": goal_is,
            "baseline": None if self.baseline is None else round(self.baseline, 4),
            "ratio": None if self.ratio is None else round(self.ratio, 3),
            "runs": self.runs,
        }


def seconds(action: Callable[[], object]) -> float:
    """Return the wall time of `action`."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def paired(ours: Callable[[], object], bare: Callable[[], object], runs: int) -> list[tuple[float, float]]:
    """Return (ours, bare) wall times of `runs` pairs, taken in turn after one pair that does not count."""
    pairs = []
    for i in range(runs + 1):
        print(f"\r  pair {i} of {runs} ", end="", file=sys.stderr, flush=True)
        pairs.append((seconds(ours), seconds(bare)))
    print("\r                    \r", end="", file=sys.stderr, flush=True)
    return pairs[1:]


def median_difference(pairs: list[tuple[float, float]]) -> float:
    """Return the median of what ours took more than bare, pair by pair."""
    return statistics.median(ours - bare for ours, bare in pairs)


def times_slower() -> float:
    """Return how many times as long as on the machine where goals were set a process of Python takes here."""
    return statistics.median(child_cpu(PARSER) for _ in range(9)) / PARSER_SECONDS


def child_cpu(command: Sequence[str], environment: Mapping[str, str] | None = None) -> float:
    """Return the CPU of a process, in seconds; without an environment it gets this one's."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
