"""What is printed at the end, and the durations of suites, tests and fixtures."""

import contextlib
import json
import os
import re
import xml.etree.ElementTree as ET  # of files that pytest has just written
from collections.abc import Iterator

from tests.side_by_side.reruns import Rerun, failed_suites
from tests.side_by_side.suites import OUT, Suite

_SHOWN = 400  # lines of a failed suite


def report(done: list[Suite], reruns: list[Rerun], expected: dict[str, float], seconds: float, busy: float) -> None:
    """Print the failures, and how long each suite took; write the durations of all suites, tests and fixtures.

    Args:
        done: The suites, all of which have ended.
        reruns: The reruns of their failed tests, which have ended too.
        expected: Seconds of suites that were expected; those of suites that ran whole replace them for the next run.
        seconds: How long it took.
        busy: Seconds of processor time that all processes of the machine took meanwhile.
    """
    by_time = sorted(done, key=lambda suite: -suite.took)
    tests, fixtures = _tests(by_time), _fixtures(by_time)
    flaky = [rerun for rerun in reruns if rerun.flaky]
    rows = [{"suite": item.name, "seconds": round(item.took, 1), "cpu": round(item.cpu, 1)} for item in by_time]
    durations = {"seconds": seconds, "busy": busy, "suites": rows, "tests": tests, "fixtures": fixtures}
    durations |= {"flaky": [item.test for item in flaky]}
    durations |= {"expected": expected | {item.measured_as: round(item.took, 1) for item in done if item.measured}}
    (OUT / "durations.json").write_text(json.dumps(durations, indent=1))
    for suite in done:
        if suite.failed:
            print(f"\n##### {suite.name}: exit code {suite.code}", *_failure(suite), sep="\n")
    for rerun in reruns:
        if not rerun.flaky:
            print(f"\n##### {rerun.test} failed again, alone", *_failure(rerun.alone), sep="\n")
    _times(by_time, tests, fixtures)
    print(f"\nthe machine was busy for {busy:.0f} of {seconds * (os.cpu_count() or 1):.0f} s of its cores")
    for rerun in flaky:
        print(f"flaky: {rerun.test}", f"  failed: {rerun.first.output}", f"  passed: {rerun.alone.output}", sep="\n")
    failed = ", ".join(suite.name for suite in failed_suites(done, reruns))
    print(f"{len(done)} suites in {seconds:.0f} s; flaky tests: {len(flaky)}; failed: {failed or 'none'}")


def _times(done: list[Suite], tests: list[dict[str, object]], fixtures: list[dict[str, object]]) -> None:
    """Print how long each suite took, and the longest tests and fixtures."""
    print(
        f"\nCI times by suite\n{'suite':24}{'seconds':>8}{'expected':>9}{'CPU s':>7}{'cores':>7}  (CPU: without pods)"
    )
    for suite in done:
        print(
            f"{suite.name:24}{suite.took:8.0f}{suite.seconds:9.0f}{suite.cpu:7.0f}{suite.cores:7.2f}  {suite.outcome}"
        )
    print("the longest tests:", *(f"{row['seconds']:8.1f} s  {row['test']}" for row in tests[:10]), sep="\n")
    print(
        "the longest fixtures:",
        *(f"{row['seconds']:8.1f} s  {row['fixture']} of {row['suite']}, {row['times']} times" for row in fixtures[:5]),
        sep="\n",
    )


def _tests(done: list[Suite]) -> list[dict[str, object]]:
    """Return the seconds of each test with its fixtures, the longest first."""
    rows = []
    for suite in done:
        with contextlib.suppress(OSError, ET.ParseError):
            for case in ET.parse(suite.junit).iter("testcase"):
                name = f"{case.get('classname')}::{case.get('name')}"
                rows.append({"suite": suite.name, "test": name, "seconds": float(case.get("time") or 0)})
    return _longest_first(rows)


def _fixtures(done: list[Suite]) -> list[dict[str, object]]:
    """Return how often each fixture was set up, and the seconds of that in all, the longest first."""
    rows = []
    for suite in done:
        with contextlib.suppress(OSError, ValueError):
            rows += [{"suite": suite.name, **row} for row in json.loads(suite.fixtures.read_text())]
    return _longest_first(rows)


def _longest_first(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: -float(str(row["seconds"])))


def _failure(suite: Suite) -> Iterator[str]:
    """Yield what a failed suite printed about its failures; of one that broke off, its last lines."""
    lines = suite.output.read_text(errors="replace").splitlines()
    heads = [at for at, line in enumerate(lines) if re.fullmatch(r"=+ (FAILURES|ERRORS) =+", line)]
    shown = lines[heads[0] :] if heads else lines
    if len(shown) > _SHOWN:
        yield f"... {len(shown) - _SHOWN} lines more in {suite.output}"
    yield from shown[-_SHOWN:]
