"""A test that CI skips has failed; anywhere else it says that it is skipped."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
TESTS = """
import pytest

def test_called(): pytest.skip("no driver")

@pytest.mark.skipif(True, reason="no root")
def test_marked(): pass

@pytest.mark.xfail(reason="known", strict=True)
def test_expected(): raise ValueError

def test_good(): pass
"""


@pytest.mark.parametrize(
    ("ci", "whole", "outcome"),
    [
        ("true", False, "1 failed, 1 passed, 1 xfailed, 1 error"),
        ("", False, "1 passed, 2 skipped, 1 xfailed"),
        ("false", False, "1 passed, 2 skipped, 1 xfailed"),
        ("true", True, "1 error"),
        ("", True, "1 skipped"),
    ],
)
def test_a_skipped_test_fails_in_ci_with_its_reason(tmp_path, ci, whole, outcome):
    module = "import pytest\npytest.skip('no driver', allow_module_level=True)" if whole else TESTS
    (tmp_path / "test_some.py").write_text(module)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.skips", "-p", "no:cacheprovider"]
    env = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run([*command, tmp_path], capture_output=True, text=True, check=False, env=env, cwd=tmp_path)
    assert outcome in ran.stdout.rpartition("\n==")[2], ran.stdout + ran.stderr
    assert whole or (ran.returncode == 0) == (ci != "true")
    if ci == "true":
        assert "was skipped, and CI has to run it: no driver" in ran.stdout


@pytest.mark.parametrize(
    ("there", "installs"), [((), True), (("chromium",), True), (("chromium", "chromedriver"), False)]
)
def test_the_browser_and_its_driver_are_installed_unless_both_are_there(tmp_path, there, installs):
    programs = {"id": "echo 0", "apt-get": f'echo "$*" >> {tmp_path}/asked', **dict.fromkeys(there, "true")}
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    make = shutil.which("make")
    subprocess.run([make, "-C", ROOT, "browser"], check=True, capture_output=True, env={"PATH": str(tmp_path)})
    asked = tmp_path / "asked"
    assert (asked.exists() and "chromium-driver" in asked.read_text()) == installs
