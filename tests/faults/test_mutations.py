"""Every case has been seen failing, and every mutant fits the code as it is; `mutants` runs them."""

import pytest

from tests.faults.cases import CASES
from tests.faults.mutants import PAGE, page, parsed
from tests.faults.mutations import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.broken)
def test_a_mutant_fits(mutant, tmp_path):
    mutant.make(tmp_path)
    for edit in mutant.edits:
        compile((tmp_path / "tfsteps" / edit.file).read_text(), edit.file, "exec")


def test_every_case_has_a_mutant():
    assert CASES.keys() - {case.name for mutant in MUTANTS for case in mutant.chosen()} == set()


def test_every_case_was_seen_failing():
    """A new case, or another one, is run against its mutant once: `python -m tests.faults.mutants`."""
    cells = parsed(PAGE.read_text())
    assert page(cells) == PAGE.read_text(), "it is as it was written"
    seen = {(step, fault) for steps in cells.values() for step, faults in steps.items() for fault in faults}
    assert seen == {(case.step, case.fault) for case in CASES.values()}
