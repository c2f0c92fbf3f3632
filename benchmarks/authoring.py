"""What our steps cost authors of pipelines: compiling and importing, over the bare SDK.

It is CPU that is measured, for that varies least. Each figure is taken in a process of its own, for the SDK keeps what
it has seen.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Row

COMPILE = ["-m", "benchmarks.compile_once"]
STEPS = 500
PAIRS = 5
IMPORTS = 11
BARE = "import time; import kfp; print(time.process_time())"
OURS = "import time; import kfp; from tfsteps.kfp import train; print(time.process_time())"


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield every row; `quick` takes fewer runs."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling again each time is not what users see
    yield from _compile(2 if quick else PAIRS)
    yield _import(3 if quick else IMPORTS)


def _compile(pairs: int) -> Iterator[Row]:
    measured = [[_compiled(which) for which in ("tfsteps", "bare")] for _ in range(pairs)]
    ours, bare = (statistics.median(pair[i][0] for pair in measured) for i in (0, 1))
    ratio = statistics.median(pair[0][0] / pair[1][0] for pair in measured)
    what = f"compiling {STEPS} training steps ({ours:.2f} s), over the same with the bare SDK ({bare:.2f} s)"
    yield Row("compile_500_ratio", what, ratio, "x", 1.1, pairs)
    sizes = [size / 2**20 for _, size in measured[0]]
    what = f"the compiled pipeline of {STEPS} steps; baseline: the bare SDK's"
    yield Row("compile_500_mib", what, sizes[0], "MiB", None, 1, sizes[1], sizes[0] / sizes[1])


def _compiled(which: str) -> tuple[float, int]:
    """Return the CPU seconds of compiling and the size of what came out."""
    out = subprocess.run([sys.executable, *COMPILE, which, str(STEPS)], check=True, capture_output=True).stdout
    seconds, size = json.loads(out)
    return seconds, size


def _import(runs: int) -> Row:
    pairs = [(_cpu(OURS), _cpu(BARE)) for _ in range(runs + 1)][1:]
    bare = statistics.median(pair[1] for pair in pairs)
    more = statistics.median(ours - bare for ours, bare in pairs)
    what = "CPU that `from tfsteps.kfp import train` adds; baseline: `import kfp`"
    return Row("import_kfp_adds_ms", what, more * 1e3, "ms", 50, runs, bare * 1e3)


def _cpu(program: str) -> float:
    return float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)
