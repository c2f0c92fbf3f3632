"""Every row has been seen failing, and every mutant fits the code as it is; `mutants` runs them."""

import pytest

from tests.faults.mutants import PAGE, page, told
from tests.faults.mutations import MUTANTS
from tests.faults.rows import ROWS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.broken)
def test_a_mutant_fits(mutant, tmp_path):
    mutant.make(tmp_path)
    for edit in mutant.edits:
        compile((tmp_path / "tfsteps" / edit.file).read_text(), edit.file, "exec")


def test_every_row_has_a_mutant():
    assert ROWS.keys() - {row.name for mutant in MUTANTS for row in mutant.chosen()} == set()


def test_every_row_was_seen_failing():
    """A new row, or another one, is run against its mutant once: `python -m tests.faults.mutants`."""
    cells = told(PAGE.read_text())
    assert page(cells) == PAGE.read_text(), "it is as it was written"
    seen = {(step, fault) for found in cells.values() for step, faults in found.items() for fault in faults}
    assert seen == {(row.step, row.fault) for row in ROWS.values()}
