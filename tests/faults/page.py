"""The matrix of a run, as a page: what happened, when, and what came of it."""

from collections.abc import Iterable, Mapping

from tests.faults.case_run import Outcome
from tests.faults.cases import FAULTS, LIFE, OUTAGES, REQUESTS, Case

_CODES = {0: "succeeded", 2: "refused", 10: "failed", 11: "deadline", 12: "cancelled", 13: "retry"}
_HEAD = """# Faults

What a launcher comes to when the API server, the network or the engine does it harm. Written by the run itself
(`pytest tests/faults`; needs a cluster): each cell is a real launcher, a real TFJob and a proxy before the real API
server. {passed} of {all} launches ended as they must.

Held to in every cell: exactly one job object was ever there for the attempt (none where it says so), the exit code is
right, no other job of the run was touched, no pod is left that should not be, and each line that the replica printed is
in the log once and in order (unless it says that there is no log).
Each cell was seen failing once: [fault-mutants.md](fault-mutants.md).
"""
_LEGEND = """
| word | what it means |
|---|---|
| succeeded | exit code 0, all as if nothing had happened |
| cancelled | exit code 12, the job object and its pods are gone |
| refused | exit code 2 with the API server's words; what to change is up to a person |
| retry | exit code 13: the platform's fault, the same step may be run again |
| no job | none was created |
| job stays | it goes on; the next launcher of the attempt adopts it |
| pods stay | they could not be deleted, and a warning says so |
| no log | what the replica printed could not be read, and the log says so |

A log-in page and an empty object are answers with HTTP 200 of something else in the API server's place, twice.
"""
_STORM = """In a storm each request has a chance of 40 % to be reset, lost, late, or answered by 429, 500, 503 or 504;
12 are hit, drawn by a seed.
"""


def page(cases: Mapping[str, Case], outcomes: Mapping[str, Outcome]) -> str:
    """Return the page of a whole run."""
    by_cell = {(case.step, case.fault): _cell(case, outcomes[name]) for name, case in cases.items()}
    good = sum(not outcome.problems for outcome in outcomes.values())
    half = len(REQUESTS) // 2
    steps = list(REQUESTS)
    tables = [
        "## A fault at a request\n",
        _table("fault", FAULTS, steps[:half], by_cell),
        _table("fault", FAULTS, steps[half:], by_cell),
        "## A launcher killed or stopped at a step of its life\n",
        _table("", _faults(LIFE), _steps(LIFE), by_cell),
        "Killed or evicted, a second launcher of the same attempt is started; the cell says what that one comes to.\n",
        "## Outages\n",
        _table("", _faults(OUTAGES), _steps(OUTAGES), by_cell),
        _STORM,
    ]
    return _HEAD.format(passed=good, all=len(outcomes)) + _LEGEND + "\n" + "\n".join(tables)


def _faults(cases: Iterable[Case]) -> list[str]:
    return list(dict.fromkeys(case.fault for case in cases))


def _steps(cases: Iterable[Case]) -> list[str]:
    return list(dict.fromkeys(case.step for case in cases))


def _table(corner: str, faults: Iterable[str], steps: list[str], cells: Mapping[tuple[str, str], str]) -> str:
    lines = [[corner, *steps], ["---"] * (len(steps) + 1)]
    lines += [[fault, *(cells.get((step, fault), "") for step in steps)] for fault in faults]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(case: Case, outcome: Outcome) -> str:
    """Return what an outcome is called."""
    if outcome.problems:
        return f"**wrong: {'; '.join(outcome.problems)[:200]}**"
    want = case.expected
    words = [_CODES[outcome.code]]
    if not want.jobs:
        words.append("no job")
    elif want.job_left and outcome.code:
        words.append("job stays")
    elif want.pods_left:
        words.append("pods stay")
    if want.lines == "none" and want.jobs and not outcome.code:
        words.append("no log")
    return ", ".join(words)
