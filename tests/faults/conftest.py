"""Cases are run a few at a time; each test waits for its own. With FAULTS=covering, only those of `choice`."""

import concurrent.futures
import os
import pathlib

import pytest

from tests.faults import choice, page
from tests.faults import fixture as fixtures
from tests.faults.case_run import CaseRun
from tests.faults.cases import CASES

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "operate" / "faults.md"

_AT_ONCE = int(os.environ.get("FAULTS_AT_ONCE", "6"))


def pytest_collection_modifyitems(config, items):
    if os.environ.get("FAULTS", "all") == "all":
        return
    names = choice.chosen()
    out = [item for item in items if "case_outcomes" in item.fixturenames and item.callspec.id not in names]
    items[:] = [item for item in items if item not in set(out)]
    config.hook.pytest_deselected(items=out)


@pytest.fixture(scope="session")
def fixture(tmp_path_factory):
    """Return the namespace that all cases share."""
    with fixtures.Fixture(fixtures.find(), tmp_path_factory.mktemp("faults")).open() as fixture:
        yield fixture


@pytest.fixture(scope="session")
def case_outcomes(request, fixture):
    """Return the future outcome of every case that was chosen, by name."""
    cases = [item.callspec.params["case"] for item in request.session.items if "case_outcomes" in item.fixturenames]
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        outcomes = {case.name: pool.submit(CaseRun(case, fixture).run) for case in cases}
        yield outcomes
        pool.shutdown(cancel_futures=True)
    if outcomes.keys() == CASES.keys() and not any(future.cancelled() for future in outcomes.values()):
        PAGE.write_text(page.page(CASES, {name: future.result() for name, future in outcomes.items()}))
