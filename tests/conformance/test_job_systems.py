"""Every job system is taken through one table of cases by the real launcher, on a real cluster."""

import pytest

from tests.conformance import scenarios, verdicts
from tests.conformance.systems import SYSTEMS

CASES = [*scenarios.CASES, *verdicts.CASES]
_TABLE = [
    pytest.param(
        system,
        case,
        id=f"{system.name}-{case.name.replace(' ', '_')}",
        marks=[pytest.mark.disruptive] if alone else [],
    )
    for alone in (False, True)  # a case that wants the cluster for itself waits for all others, of every system
    for system in SYSTEMS
    for case in CASES
    if case.alone is alone and case.fits(system)
]

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(("system", "case"), _TABLE)
def test_a_case(system, case, case_outcomes):
    case_outcomes(system, case)
