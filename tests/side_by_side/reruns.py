"""The rerun of failed tests: alone and one at a time, when all suites have ended. A test that passes then is flaky."""

import contextlib
import json
import re
import xml.etree.ElementTree as ET  # of files that pytest has just written
from collections.abc import Iterable
from dataclasses import dataclass

from tests.side_by_side.suites import OUT, Suite, folder_of

LIMIT = 10
"""If more tests fail, none is run again: that many have one cause, which is not a race."""

_TESTS_FAILED = 1  # pytest's exit code; after a crash, an interrupt or a failed collection it is another one
_NO_RERUN = {"unit", "wire", "golden"}  # nothing disturbs these tests: a race there is a defect
_SUMMARY = re.compile(r"(=+ )?(\d+ [a-z]+, )*\d+ [a-z]+ in \d+\.\d+s\b.*")


@dataclass(frozen=True)
class Rerun:
    """A failed test and its rerun.

    Attributes:
        test: Its node id.
        first: The suite in which it failed.
        alone: The process that runs this test again.
    """

    test: str
    first: Suite
    alone: Suite

    @property
    def flaky(self) -> bool:
        """Whether the test passed when it ran alone. A test that was skipped, or was not found, did not pass."""
        with contextlib.suppress(OSError, ET.ParseError):
            counts = next(ET.parse(self.alone.junit).iter("testsuite")).attrib
            return (self.alone.code, counts.get("tests"), counts.get("skipped")) == (0, "1", "0")
        return False


def reruns_of(done: Iterable[Suite]) -> list[Rerun]:
    """Return the reruns of the tests that failed, without those of unit, wire and golden."""
    return [
        Rerun(test, suite, Suite(f"reruns/{suite.name}.{number}", test, suite.options))
        for suite in done
        if folder_of(suite.name) not in _NO_RERUN
        for number, test in enumerate(_failed_tests(suite), 1)
    ]


def failed_suites(done: Iterable[Suite], reruns: Iterable[Rerun]) -> list[Suite]:
    """Return the suites that failed by more than flaky tests."""
    flaky = {rerun.first.name for rerun in reruns} - {rerun.first.name for rerun in reruns if not rerun.flaky}
    return [suite for suite in done if suite.failed and suite.name not in flaky]


def _failed_tests(suite: Suite) -> list[str]:
    """Return the node ids of a suite's failed tests; empty if other failures are possible, such as tests not run."""
    if suite.code != _TESTS_FAILED or not _ran_to_end(suite):
        return []
    try:  # pytest's own record: names in a JUnit file are not node ids
        failed = json.loads((OUT / "cache" / suite.name / "v/cache/lastfailed").read_text())
    except (OSError, ValueError):
        return []
    return sorted(failed) if all("::" in test for test in failed) else []  # else a module could not be collected


def _ran_to_end(suite: Suite) -> bool:
    """Tell whether pytest ran all tests, and printed nothing after its summary: its own failure would be there."""
    *lines, last = suite.output.read_text(errors="replace").rstrip().split("\n")
    return bool(_SUMMARY.fullmatch(last)) and not any(re.fullmatch(r"!+ .+ !+", line) for line in lines)
