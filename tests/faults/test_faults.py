"""The launcher against the real cluster, through a proxy that does harm.

In every case: exactly one job an attempt, the right verdict, nothing orphaned, siblings untouched, every log line once.
"""

import pytest

from tests.faults.cases import CASES


@pytest.mark.cluster
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_fault(case, case_outcomes):
    outcome = case_outcomes[case.name].result()
    assert not outcome.problems, "\n".join(outcome.problems)
