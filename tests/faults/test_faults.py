"""The launcher against the real cluster, through a proxy that does harm.

In every row: exactly one job an attempt, the right verdict, nothing orphaned, siblings untouched, every log line once.
"""

import pytest

from tests.faults.rows import ROWS


@pytest.mark.cluster
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_fault(row, row_outcomes):
    found = row_outcomes[row.name].result()
    assert not found.problems, "\n".join(found.problems)
