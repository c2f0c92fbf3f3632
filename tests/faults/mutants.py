"""Runs the cases of the fault matrix against broken launchers, and demands that each case sees its own.

`python -m tests.faults.mutants [NUMBER ...]`: all mutants, or those of these numbers; on the cluster of KUBECONFIG, or
of `make cluster`. What was seen is written to the page; what it says of mutants that were not run stays.
"""

import concurrent.futures
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.faults.case_run import CaseRun, Outcome
from tests.faults.cases import Case
from tests.faults.fixture import Fixture, find
from tests.faults.mutations import MUTANTS, Mutant
from tests.support.markdown import entry

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "operate" / "fault-mutants.md"
_AT_ONCE = int(os.environ.get("FAULTS_AT_ONCE", "8"))  # most of them wait for what never comes
_LIMIT_SECONDS, _OUTAGE_SECONDS = 75.0, 110.0  # patience is 30 s
_SETTLE_SECONDS = 6.0
_CONTROL = Case(step="no fault", fault="", rules=())
_HEAD = """# Tests of the fault tests

<!-- Written by `make mutants`. -->

Each cell of the [fault matrix](faults.md) has been seen failing: with a launcher that is broken in the one way that the
cell must detect, and that still succeeds without a fault.

The cells that fail with a launcher that ...

"""
_BETWEEN = " · "
Cells = dict[str, dict[str, list[str]]]
"""What went red, by what is broken: faults by step."""


@dataclass
class Attempt:
    """A case that is run against a mutant; the control is to succeed, all others are to fail."""

    mutant: Mutant
    case: Case
    future: "concurrent.futures.Future[Outcome]"

    @property
    def wrong(self) -> str:
        """What is not as it must be with the mutant; empty = nothing."""
        problems = self.future.result().problems
        if self.case is _CONTROL:
            return "; ".join(problems)
        if any(problem.startswith("no request met the fault") for problem in problems):
            return "the fault was not met"
        return "" if problems else "it did not notice"

    def __str__(self) -> str:
        """Return it as a line of the report."""
        outcome = self.future.result()
        description = f"WRONG: {self.wrong}" if self.wrong else "; ".join(outcome.problems) or "succeeded"
        return f"{MUTANTS.index(self.mutant)} {self.case.name} [{outcome.seconds:.0f} s] {description[:200]}"


def run(mutants: Sequence[Mutant], fixture: Fixture, folder: pathlib.Path) -> list[Attempt]:
    """Run all cases of all mutants, and a launch without a fault with each."""
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        attempts = []
        for mutant in mutants:
            number = MUTANTS.index(mutant)
            package = mutant.make(folder / str(number))
            for case in [_CONTROL, *mutant.chosen()]:
                limit = _OUTAGE_SECONDS if case.fault.startswith("down for") else _LIMIT_SECONDS
                named = replace(case, fault=f"{case.fault} m{number}")  # a task of its own
                case_run = CaseRun(named, fixture, package=str(package), limit=limit, settle=_SETTLE_SECONDS)
                attempts.append(Attempt(mutant, case, pool.submit(case_run.run)))
        for attempt in attempts:
            attempt.future.result()
            print(attempt, flush=True)
    return attempts


# --- the page


def red(attempts: Sequence[Attempt]) -> Cells:
    """Return what went red; nothing for a mutant that fails without a fault, for it proves nothing."""
    cells: Cells = {attempt.mutant.broken: {} for attempt in attempts}
    void = {attempt.mutant.broken for attempt in attempts if attempt.case is _CONTROL and attempt.wrong}
    for attempt in attempts:
        if attempt.case is not _CONTROL and not attempt.wrong and attempt.mutant.broken not in void:
            cells[attempt.mutant.broken].setdefault(attempt.case.step, []).append(attempt.case.fault)
    return cells


def page(cells: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """Return the page that says what went red."""
    lines = []
    for mutant in MUTANTS:
        if steps := cells.get(mutant.broken):
            lines.append(entry(f"{mutant.broken}:"))
            lines += [entry(f"**{step}**", _BETWEEN.join(names), depth=1) for step, names in steps.items()]
    return _HEAD + "\n".join(lines) + "\n"


def parsed(text: str) -> Cells:
    """Return what a page says."""
    cells: Cells = {}
    for block in re.split(r"^- ", text.removeprefix(_HEAD), flags=re.MULTILINE)[1:]:
        broken, *parts = (" ".join(part.split()) for part in block.split("    - "))
        cells[broken.removesuffix(":")] = {
            step.removeprefix("**"): faults.split(_BETWEEN) for step, faults in (part.split("**: ") for part in parts)
        }
    return cells


def main(numbers: Sequence[str]) -> int:
    """Run, report, and return 1 if a case did not see its mutant, or a mutant fails without a fault."""
    mutants = [MUTANTS[int(number)] for number in numbers] or MUTANTS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with Fixture(find(), folder).open() as fixture:
            attempts = run(mutants, fixture, folder)
    PAGE.write_text(page((parsed(PAGE.read_text()) if PAGE.exists() else {}) | red(attempts)))
    wrong = [attempt for attempt in attempts if attempt.wrong]
    print("\n".join(["", *map(str, wrong), f"{len(attempts) - len(wrong)} of {len(attempts)} as they must be"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
