"""All tests, the suites side by side: `python -m tests.side_by_side [--cluster] [arguments of pytest]`.

Each suite is a pytest process of its own: a folder of tests, or of some folders the tests that are marked `tensorflow`,
and the others. Most suites on a cluster wait for it, so more of them run at once than there are cores: as many as
their share of a core allows, the longest first; without `--cluster`, the shortest first. Tests marked `disruptive` harm
what others use on the cluster, and wait for all suites that need one; those that need none, and keep a core busy, are
left to run beside them. Tests marked `alone` come last, one after another.

The tests that failed, at most ten, then run once more, alone and one at a time; those of unit, wire and golden do not.
What passes then is flaky, and is listed; what fails twice fails the run.

In build/side_by_side are the output of each suite, its JUnit file, the same of each rerun, and durations.json: seconds
of suites, tests and fixtures. The next run expects of each suite what its last whole run took.
"""

import argparse
import fcntl
import json
import os
import pathlib
import shutil
import sys
import time

from tests.side_by_side.report import report
from tests.side_by_side.reruns import LIMIT, Rerun, failed_suites, reruns_of
from tests.side_by_side.run import Run
from tests.side_by_side.suites import FIRST_GUESS, HERE, OUT, expected_seconds, folder_of, suites


def main() -> int:
    """Return 0 if all passed, 1 if any failed, 130 after a signal."""
    parser = argparse.ArgumentParser(
        "python -m tests.side_by_side", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cluster", action="store_true", help="also the tests on the cluster of KUBECONFIG")
    parser.add_argument("--cores", type=float, default=float(os.cpu_count() or 1), help="how much to run at once")
    parser.add_argument("--suite", action="append", help="just this suite; may be given again")
    parser.add_argument(
        "--save-seconds", action="store_true", help="run nothing; write what is expected to the repository"
    )
    options, arguments = parser.parse_known_args()
    expected = expected_seconds()
    if options.save_seconds:
        rounded = {name: round(seconds) for name, seconds in sorted(expected.items())}
        FIRST_GUESS.write_text(json.dumps(rounded, indent=1) + "\n")
        return 0
    OUT.mkdir(parents=True, exist_ok=True)
    with OUT.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            parser.error(f"another run writes to {OUT}; wait for its end, or use another clone")
        return _run(options, arguments, expected)


def _run(options: argparse.Namespace, arguments: list[str], expected: dict[str, float]) -> int:
    shutil.rmtree(OUT)
    OUT.mkdir()
    together, alone = suites(HERE, expected, cluster=options.cluster, arguments=arguments)
    if options.suite:
        known = {part for item in (*together, *alone) for part in (item.name, folder_of(item.name))}
        if unknown := set(options.suite) - known:
            raise SystemExit(f"no suite {', '.join(sorted(unknown))}; there are: {', '.join(sorted(known))}")
        together, alone = (
            [item for item in part if {item.name, folder_of(item.name)} & set(options.suite)]
            for part in (together, alone)
        )
    run, began, busy = Run(together, alone, options.cores), time.monotonic(), _busy_seconds()
    count = len(together) + len(alone)
    run.say(f"{count} suites, about {run.expected_seconds / 60:.0f} minutes if they take what they took last")
    if not run.to_end():
        return 130
    done = list(run.done)
    reruns = _reruns(run)
    if not run.to_end():
        return 130
    report(done, reruns, expected, time.monotonic() - began, _busy_seconds() - busy)
    return 1 if failed_suites(done, reruns) else 0


def _reruns(run: Run) -> list[Rerun]:
    """Add to a run the reruns of its failed tests, unless they are too many, and return them."""
    reruns = reruns_of(run.done)
    if len(reruns) > LIMIT:
        run.say(f"no reruns: {len(reruns)} tests failed, and only up to {LIMIT} are run again")
        return []
    if reruns:
        run.say(f"run again, alone: {', '.join(rerun.test for rerun in reruns)}")
    run.add([rerun.alone for rerun in reruns])
    return reruns


def _busy_seconds() -> float:
    """Return the processor time that this machine has used since it started, of all processes; 0 if it cannot tell."""
    try:
        user, nice, system, _idle, _wait, *rest = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    except (OSError, ValueError):
        return 0.0
    return sum(map(int, (user, nice, system, *rest))) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
