"""Every job system is taken through one table of cases by the real launcher, on a real cluster."""

import pytest

from tests.conformance import stories, verdicts
from tests.conformance.systems import SYSTEMS

CASES = sorted([*stories.CASES, *verdicts.CASES], key=lambda case: case.alone)
_TABLE = [
    pytest.param(system, case, id=f"{system.name}-{case.name.replace(' ', '_')}")
    for system in SYSTEMS
    for case in CASES
    if case.fits(system)
]

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.mark.parametrize(("system", "case"), _TABLE)
def test_a_case(system, case, case_outcomes):
    case_outcomes(system, case)
