"""The report of a job of 60 replicas that printed 100,000 lines each, and the size of its page.

`report_even_s` is of a log to which all replicas write to their end. In `report_uneven_s` one worker ended early and an
evaluator prints a line now and then, so that their lines have to be looked for.
"""

import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator

from benchmarks.measure import Row
from tests.support.finished import START, attempt_of, changes, curves, ran
from tfsteps import report
from tfsteps.runs.events import State
from tfsteps.runs.log_file import stamp
from tfsteps.runs.store import AttemptFolder

REPLICAS, LINES = 60, 100_000
GOAL = 3.0  # seconds
SIZE_GOAL = 3.0  # MiB
RUNS = 5
JOB = f"{{name: wide, command: [python, train.py], roles: {{worker: {{replicas: {REPLICAS - 1}}}, evaluator: {{}}}}}}"


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield the seconds that a report takes, and the size of its page."""
    runs, lines = (2, LINES // 10) if quick else (RUNS, LINES)
    what = f"{REPLICAS} replicas with {lines:,} lines each"
    for name, more in (("even", ""), ("uneven", "; one ended early, one prints little")):
        with tempfile.TemporaryDirectory() as home:
            os.environ["TFSTEPS_HOME"] = home
            attempt = _attempt(lines, uneven=name == "uneven")
            seconds = [_seconds(attempt) for _ in range(runs)]
            value = statistics.median(seconds)
            yield Row(f"report_{name}_s", f"report of {what}{more}", value, "s", GOAL, runs)
            mib = attempt.report.stat().st_size / (1 << 20)
            yield Row(f"report_{name}_mib", f"size of the report of {what}{more}", mib, "MiB", SIZE_GOAL, 1)


def _seconds(attempt: AttemptFolder) -> float:
    start = time.perf_counter()
    report.write(attempt)
    return time.perf_counter() - start


def _attempt(lines: int, *, uneven: bool) -> AttemptFolder:
    attempt, status = attempt_of(JOB, State.SUCCEEDED, started=START + 9, ended=START + lines)
    for replica in status.replicas:
        ran(replica, 1, lines, "succeeded", 0)
    status.transitions = changes((0, "pending"), (9, "running"), (lines, "succeeded"))
    curves(status, 3000)
    attempt.write(status)
    _write_log(attempt.log, [replica.name for replica in status.replicas], lines, uneven=uneven)
    return attempt


def _write_log(log: pathlib.Path, names: list[str], lines: int, *, uneven: bool) -> None:
    first, *others, last = [b" %b " % name.encode() for name in names]
    with log.open("wb") as file:
        for step in range(lines):
            sources = [*others, *([first] if not uneven or step < lines // 10 else [])]
            sources += [last] if not uneven or step % 1000 == 0 else []
            text = b"step %7d  loss %.4f  accuracy %.4f\n" % (step, 2 / (step + 1), 1 - 1 / (step + 1))
            at = stamp(START + step)
            file.write(b"".join([at + source + text for source in sources]))
