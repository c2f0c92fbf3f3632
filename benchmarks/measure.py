"""Paired runs and their medians."""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measured figure.

    Attributes:
        name: Its key in results.json.
        what: What it is, for people.
        value: The figure.
        unit: Of value and baseline.
        goal: What it should not exceed; None = it is somebody else's.
        runs: How many counted.
        baseline: What it was measured against; None = nothing.
        ratio: With over without; None = not meaningful.
    """

    name: str
    what: str
    value: float
    unit: str
    goal: float | None
    runs: int
    baseline: float | None = None
    ratio: float | None = None

    def result(self) -> dict[str, object]:
        """Return the row as results.json holds it."""
        return {
            "what": self.what,
            "value": round(self.value, 4),
            "unit": self.unit,
            "goal": None if self.goal is None else round(self.goal, 4),
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
