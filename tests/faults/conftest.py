"""Rows are run a few at a time; each test waits for its own. With FAULTS=covering, only those of `choice`."""

import concurrent.futures
import os
import pathlib

import pytest

from tests.faults import choice, matrix
from tests.faults import site as sites
from tests.faults.rows import ROWS
from tests.faults.trial import Trial

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "faults.md"

_AT_ONCE = int(os.environ.get("FAULTS_AT_ONCE", "6"))


def pytest_collection_modifyitems(config, items):
    if os.environ.get("FAULTS", "all") == "all":
        return
    names = choice.chosen()
    out = [item for item in items if "row_outcomes" in item.fixturenames and item.callspec.id not in names]
    items[:] = [item for item in items if item not in set(out)]
    config.hook.pytest_deselected(items=out)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Return the namespace that all rows share."""
    with sites.Site(sites.find(), tmp_path_factory.mktemp("faults")).open() as site:
        yield site


@pytest.fixture(scope="session")
def row_outcomes(request, site):
    """Return the future outcome of every row that was chosen, by name."""
    rows = [item.callspec.params["row"] for item in request.session.items if "row_outcomes" in item.fixturenames]
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        found = {row.name: pool.submit(Trial(row, site).run) for row in rows}
        yield found
        pool.shutdown(cancel_futures=True)
    if found.keys() == ROWS.keys() and not any(future.cancelled() for future in found.values()):
        PAGE.write_text(matrix.page(ROWS, {name: future.result() for name, future in found.items()}))
