"""Rows are run a few at a time; each test waits for its own."""

import concurrent.futures
import os
import pathlib

import pytest

from tests.faults import matrix
from tests.faults import site as sites
from tests.faults.rows import ROWS
from tests.faults.trial import Trial

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "operate" / "faults.md"

_AT_ONCE = int(os.environ.get("FAULTS_AT_ONCE", "6"))


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
