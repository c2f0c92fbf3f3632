"""The launchers that tests start import what a launcher needs, and no more: hundreds of them are started."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["tests.conformance.launcher", "tests.hai.launcher", "tests.faults.driver"])
def test_it_imports_neither_pytest_nor_a_pipeline_engine(module):
    program = f"import sys, {module}; print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {"pytest", "kfp", "hera", "tensorflow"} & set(printed.split()) == set()
