"""`make test-for`: which tests cover a module."""

import subprocess
import sys

import pytest

from tests.covering import ENOUGH, PACKAGE, ROOT, Covering


@pytest.fixture(scope="module")
def tree():
    return Covering()


def test_each_module_has_tests(tree):
    missing = [file for module in tree.modules for file in tree.tests_of(module) if not (ROOT / file).exists()]
    assert missing == []
    assert all(tree.tests_of(module) for module in tree.modules)


@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("systems/restart_policy.py", "tests/unit/systems/test_restart_policy.py"),  # imports it
        ("masking.py", "tests/unit/test_masking.py"),
        ("steps/wait/launcher.py", "tests/unit/engines/kfp/test_waits.py"),  # starts it
        ("cli/commands/rerun.py", "tests/unit/cli/commands/test_attach_and_rerun.py"),  # runs the command
        ("cli/clearing.py", "tests/hai/test_detach.py"),  # runs a command that imports it
        ("platforms/hai/ranks/manager.py", "tests/unit/platforms/hai/ranks/test_agent.py"),
    ],
)
def test_tests_of_a_module(tree, module, test):
    assert any(file.startswith(test) for file in tree.tests_of(PACKAGE / "tfsteps" / module))


def test_a_test_that_is_called_like_a_module_covers_it(tree):
    assert "tests/unit/cli/commands/test_rm.py" in tree.tests_of(PACKAGE / "tfsteps/cli/commands/rm.py")


def test_a_test_that_lists_names_of_modules_does_not_cover_them(tree):
    assert "tfsteps.systems.trainjob" not in tree.tests[ROOT / "tests/unit/cli/test_app.py"]


@pytest.mark.parametrize("module", ["backends/open.py", "cli/planned_job.py", "cli/commands/submit.py"])
def test_importers_are_followed_until_some_tests_cover_a_module(tree, module):
    assert len(tree.tests_of(PACKAGE / "tfsteps" / module)) >= ENOUGH


def test_relative_imports_count(tree):
    ranks = PACKAGE / "tfsteps/platforms/hai/ranks"
    assert "tfsteps.platforms.hai.ranks.manager" in tree.modules[ranks / "coordinator.py"]


def test_tests_run_with_the_arguments_of_pytest():
    command = [sys.executable, "-m", "tests.covering", "components/tfsteps/masking.py", "--collect-only"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " cover components/tfsteps/masking.py" in done.stdout.splitlines()[0]
    assert "::test_" in done.stdout


@pytest.mark.parametrize("file", ["README.md", "components/tfsteps/none.py", "tests/covering.py"])
def test_what_is_no_module_is_refused(file):
    command = [sys.executable, "-m", "tests.covering", file]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"{file} is not a module of components/tfsteps: run the tests by `make test ARGS=...`\n"
