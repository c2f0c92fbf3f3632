"""Every job system is taken through one table of cases by the real launcher, on a real cluster."""

import pytest

from tests.conformance import stories, verdicts
from tests.conformance.systems import SYSTEMS

_CASES = sorted([*stories.CASES, *verdicts.CASES], key=lambda case: case.alone)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name.replace(" ", "_"))
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_case(system, case, case_outcomes):
    case_outcomes(system, case)
