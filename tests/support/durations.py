"""A pytest plugin: with TFSTEPS_DURATIONS=FILE, write to it as JSON how long the set-up of each fixture took."""

import json
import os
import pathlib
import time

import pytest

_setups = {}  # fixture: [how often, seconds in all]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    began = time.monotonic()
    try:
        return (yield)
    finally:
        total = _setups.setdefault(fixturedef.argname, [0, 0.0])
        total[0] += 1
        total[1] += time.monotonic() - began


def pytest_sessionfinish():
    if file := os.environ.get("TFSTEPS_DURATIONS"):
        rows = [{"fixture": name, "times": times, "seconds": seconds} for name, (times, seconds) in _setups.items()]
        pathlib.Path(file).write_text(json.dumps(rows))
