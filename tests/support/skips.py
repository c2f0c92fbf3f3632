"""A pytest plugin: in CI (`CI=true`), where everything can be installed, a test that is skipped has failed."""

import os

import pytest

ALLOWED = {}
"""Reasons for which CI may skip a test, each with why CI cannot run it. There is none today."""


def _judged(report):
    if (
        os.environ.get("CI", "").lower() not in ("", "0", "false")
        and report.skipped
        and not hasattr(report, "wasxfail")
    ):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if reason not in ALLOWED:
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid} was skipped, and CI has to run it: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _judged((yield))
