"""The matrix of a run, as a page: what happened, when, and what came of it."""

from collections.abc import Iterable, Mapping

from tests.faults.case_run import Outcome
from tests.faults.cases import FAULTS, LIFE, OUTAGES, REQUESTS, Case
from tests.support.markdown import table

_CODES = {0: "succeeded", 2: "refused", 10: "failed", 11: "deadline", 12: "cancelled", 13: "retry"}
_HEAD = """# Behaviour under faults

<!-- Written by `make faults`. -->

How a launcher behaves when the API server, the network or the engine fails. Each cell is a real launcher, a real TFJob,
and a proxy in front of the real API server. {passed} of {all} launches ended as they must.

Each cell also checks that exactly one job object existed for the attempt (none where the cell says so), that the exit
code is right, that no other job of the run was touched, that no pod is left that should not be, and that each line of
the replica is in the log once and in order (unless the cell says that there is no log). Each cell was seen failing
once: [Tests of the fault tests](fault-mutants.md). [A fault at each request](faults-by-request.md) has more situations
and four job systems, on servers of the tests.
"""
_LEGEND = """
| result | meaning |
|---|---|
| succeeded | Exit code 0, as if nothing had happened |
| cancelled | Exit code 12; the job object and its pods are deleted |
| refused | Exit code 2 with the API server's message; a person has to change something |
| retry | Exit code 13: a platform fault, the same step may be retried |
| no job | None was created |
| job stays | The job continues; the next launcher of the attempt adopts it |
| pods stay | They could not be deleted, and a warning says so |
| no log | The output of the replica could not be read, and the log says so |

"Log-in page" and "empty object" are answers with HTTP 200 that something other than the API server sent, twice.
"""
_STORM = """In a storm each request has a chance of 40 % to be reset, lost, delayed, or answered with 429, 500, 503 or
504: 12 requests, chosen by a seed.
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
        "## A launcher that is killed or stopped\n",
        _table("", _faults(LIFE), _steps(LIFE), by_cell),
        "After a kill or an eviction a second launcher of the same attempt starts; the cell is its result.\n",
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
    return (
        table([corner, *steps], [[fault, *(cells.get((step, fault), "") for step in steps)] for fault in faults]) + "\n"
    )


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
