"""What every test gets: a state folder of its own, and the choice to update golden files."""

import gc
import itertools
import os
import pathlib
import signal
import stat

import pytest

from tests.support.durations import pytest_fixture_setup, pytest_sessionfinish
from tests.support.skips import pytest_make_collect_report, pytest_runtest_makereport

# Helpers whose assertions explain themselves. Not in their package: launchers under test are started from it, and
# would import pytest, which takes three times as long as all else that they do.
pytest.register_assert_rewrite(
    "tests.conformance.environment", "tests.conformance.verdicts", "tests.conformance.scenarios"
)

__all__ = [
    "pytest_fixture_setup",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
    "pytest_sessionfinish",
]

# Started by nohup, or in the background of a script, we ignore these, and so would every program that we start.
for _number, _usual in {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}.items():
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="update golden and generated files")


@pytest.fixture(autouse=True)
def _own_signal_handlers():
    """Restore the handlers that a test changes: a step's program that runs here ignores SIGTERM at its end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def pytest_collection_finish():
    """Leave what collection has made, which stays until the end, out of each later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def _homes(tmp_path_factory):
    """Return paths of folders, none of which is there yet.

    Not in `tmp_path`: pytest lists the folders of all earlier tests to make one more, 5 ms with 6,000 of them, and
    most tests need none.
    """
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def home(_homes, monkeypatch):
    """Keep run folders out of the user's home."""
    folder = next(_homes)
    monkeypatch.setenv("TFSTEPS_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def machine():
    """Fail the test that, run as root, has put a file in the place of the null device: no container would start."""
    yield
    assert stat.S_ISCHR(pathlib.Path(os.devnull).stat().st_mode), f"this test has replaced {os.devnull}"


@pytest.fixture
def golden(request):
    """Compare a text with the golden file at a path; with --update-golden, write it instead."""

    def check(path: pathlib.Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            assert "CI" not in os.environ, "CI compares golden files; it never writes them"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.read_text() == text, f"{path} is out of date: `make golden`, then read the difference"

    return check
