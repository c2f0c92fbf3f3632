"""A package outside this one adds a job system by an entry point: the steps of docs/contribute/job-system.md."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.plugin.outside import installed, tfsteps
from tests.support.processes import started
from tests.support.waiting import until
from tfsteps.runs import store

ROOT = pathlib.Path(__file__).parents[2]
TOY = pathlib.Path(__file__).with_name("toy_system")
PAGE = ROOT / "docs" / "contribute" / "job-system.md"
JOB = """
name: greet
command: [sh, -c, 'echo "$GREETING from $TFSTEPS_ROLE-$TFSTEPS_INDEX"']
roles: {worker: {replicas: 2}}
systems: {toy: {greeting: hi}}
"""


@pytest.fixture(scope="module")
def install_dir(tmp_path_factory):
    """Return a folder with the package installed."""
    return installed(TOY, tmp_path_factory.mktemp("install_dir"))


def test_a_job_runs_on_it_by_the_commands_of_the_page(install_dir, tmp_path):
    (tmp_path / "job.yaml").write_text(JOB)
    commands = re.findall(r"^tfsteps (.*)$", PAGE.read_text(), re.MULTILINE)
    assert commands == ["validate job.yaml", "run job.yaml --system toy"]
    for command in commands:
        code, printed = tfsteps(install_dir, tmp_path, *command.split())
        assert code == 0, printed
    assert {"hi from worker-0", "hi from worker-1"} <= set(re.findall(r"hi from worker-\d", printed))


def test_its_options_and_capabilities_are_checked_before_anything_starts(install_dir, tmp_path):
    (tmp_path / "job.yaml").write_text(JOB.replace("greeting", "greting"))
    code, printed = tfsteps(install_dir, tmp_path, "validate", "job.yaml")
    assert (code, "systems.toy.greting" in printed, "greeting" in printed) == (2, True, True), printed
    (tmp_path / "job.yaml").write_text(JOB + "resources: {gpu: 1}\n")
    code, printed = tfsteps(install_dir, tmp_path, "run", "job.yaml", "--system", "toy")
    assert (code, "a toy has no GPU" in printed) == (2, True), printed


def test_it_passes_the_checks_of_every_job_system(install_dir):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "toy",
        "tests/unit/systems/test_capabilities.py",
    ]
    env = {**os.environ, "PYTHONPATH": str(install_dir), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d\d passed", done.stdout), done.stdout


def test_without_the_package_the_name_is_unknown(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB)
    code, printed = tfsteps("", tmp_path, "validate", "job.yaml")
    assert (code, "toy: is not a job system" in printed) == (2, True), printed


BROKEN = {
    "no such module": ('"toy_system:PLUGIN"', '"toy_system.gone:PLUGIN"', "it cannot be loaded: ModuleNotFoundError("),
    "no plugin": ('"toy_system:PLUGIN"', '"toy_system:system"', "it refers to a function, not a SystemPlugin"),
    "a name that is taken": ('name="toy"', 'name="jobset"', "its job system's name 'jobset' is taken"),
    "a rank without kinds": (
        "    system=system,\n",
        "    system=system,\n    discovery_rank=1,\n",
        "has a discovery_rank",
    ),
    "an unknown feature": ('"gpu": refused', '"gpus": refused', "its capabilities and FEATURES differ: gpus"),
}


@pytest.mark.parametrize(("old", "new", "wrong"), BROKEN.values(), ids=BROKEN)
def test_a_package_that_is_wrong_is_named(tmp_path, old, new, wrong):
    shutil.copytree(TOY, tmp_path / "package")
    for file in (tmp_path / "package").rglob("*"):
        if file.suffix in (".py", ".toml"):
            file.write_text(file.read_text().replace(old, new))
    install_dir = installed(tmp_path / "package", tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    code, printed = tfsteps(install_dir, tmp_path, "validate", "job.yaml")
    assert code == 2
    assert printed.startswith("error: entry point 'toy' in tfsteps.systems of package toy-system 1.0 (")
    assert wrong in printed
    assert printed.endswith("Correct or uninstall that package\n")


def test_its_jobs_are_known_to_end_with_their_launcher(install_dir, tmp_path):
    job = JOB.replace("echo", "touch up; sleep 600; echo")
    (tmp_path / "job.yaml").write_text(job)
    with started(
        [
            sys.executable,
            "-c",
            "from tfsteps.cli import main; main()",
            "run",
            "job.yaml",
            "--system",
            "toy",
            "--run-id",
            "r",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(install_dir)},
        stdout=subprocess.DEVNULL,
    ) as launcher:
        until((tmp_path / "up").exists)
        launcher.kill()
    (attempt,) = store.attempts("r")
    until(attempt.replicas_ended.exists)
    printed = {
        command: tfsteps(install_dir, tmp_path, *command.split())
        for command in ("show r", "runs", "stop r", "shell r worker-0 -- true", "clear r --yes")
    }
    assert [code for code, _ in printed.values()] == [0, 0, 0, 0, 0], printed
    assert "The launcher was killed; its replicas were stopped too." in printed["show r"][1]
    assert re.search(r"^r .* lost +toy ", printed["runs"][1], re.MULTILINE)
    assert re.match("already ended: greet lost .*its replicas were stopped too", printed["stop r"][1])
    assert "kubernetes" not in "".join(out for _, out in printed.values())
    assert printed["clear r --yes"][1].endswith("run r cleared\n")
