"""What the command loads before it does anything: each call of it waits for that."""

import os
import subprocess
import sys

import pytest

from tests.unit.cli.command import COMMAND, refused, tfsteps

PROGRAM = """
import sys
from tfsteps.cli.app import app

try:
    app(sys.argv[1:], prog_name="tfsteps")
except SystemExit as end:
    assert end.code in (0, None), end.code
print(*sys.modules, sep=chr(10))
"""
PIPELINES = {"hera", "kfp", "pydantic", "rich", "tensorboard"}
PACKAGES = {"email", "importlib.metadata"}  # what looks for packages of others
CLIENT = {"ssl", "urllib3", "tfsteps.kube.client", "tfsteps.systems.kubernetes.follow.job"}
RUNS = {"tarfile", "tfsteps.backends.base", "tfsteps.runs.store"}
OTHERS = {"tfsteps.platforms.hai", "tfsteps.platforms.t9k", "tfsteps.systems.trainjob"}


@pytest.mark.parametrize(
    ("words", "needless"),
    [
        ("show ", {"tfsteps.backends.find", "tfsteps.report", "tfsteps.systems.base"}),
        ("logs --on l", {"tfsteps.backends.find", "tfsteps.runs.store"}),
        ("submit --engine l", {"tfsteps.schedule", "tfsteps.backends.find"}),
        ("lint ", {"msgspec", "tfsteps.spec"}),
        ("run --system ", {"msgspec", "tfsteps.spec"}),
    ],
)
def test_a_completion_loads_only_what_the_values_need(words, needless, tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    monkeypatch.setenv("_TFSTEPS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"tfsteps {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" "))))
    loaded = subprocess.run([sys.executable, "-c", PROGRAM], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert "tfsteps.cli.listed" in loaded.split("\n")
    assert (PIPELINES | CLIENT | needless) & {*loaded.split("\n")} == set()
    assert "tfsteps.cli.commands" not in loaded


@pytest.mark.parametrize(
    ("arguments", "needless"),
    [
        ("--help", PIPELINES | PACKAGES | CLIENT | OTHERS | {"yaml", "msgspec", "tfsteps.spec"}),
        ("runs --since 1d", PIPELINES | PACKAGES | CLIENT | OTHERS | {"yaml", "tarfile"}),
        ("validate job.yaml", PIPELINES | PACKAGES | CLIENT | OTHERS | RUNS),
        ("validate job.yaml --system kubeflow", PIPELINES | PACKAGES | CLIENT | OTHERS),
        ("run job.yaml --system kubeflow --dry-run --run-id r", PIPELINES | {"tfsteps.kube.client", "urllib3"}),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments, needless, tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    job = "name: a\nimage: registry.example/train:1\ncommand: [train]\nroles: {worker: {}}\n"
    (tmp_path / "job.yaml").write_text(job)
    command = [sys.executable, "-c", PROGRAM, *arguments.split()]
    loaded = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")
    assert "tfsteps.cli.app" in loaded
    assert not needless.intersection(loaded)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("runs", "--limit", "x"),
            "'--limit': 'x' is not a whole number from 1 up; write one, or leave the option out",
        ),
        (("runs", "--limit", "0"), "'--limit': '0' is not a whole number from 1 up"),
        (("runs", "--limit", ""), "'--limit': '' is not a whole number from 1 up"),
        (("run", "--workers", "nan", "--", "true"), "'--workers': 'nan' is not a whole number from 1 to 10000"),
        (("run", "--workers", "2.0", "--", "true"), "'--workers': '2.0' is not a whole number from 1 to 10000"),
        (("run", "--ps", "0", "--chief", "--", "true"), "'--ps': '0' is not a whole number from 1 to 10000"),
        (("logs", "r1", "-C", "10001"), "'-C': '10001' is not a whole number from 0 to 10000"),
        (("check", "--timeout", "nan"), "--timeout: deadlines.total: 'nan' is not a duration. Allowed: "),
        (("submit", "-", "--every", "0"), "--every: interval: '0' is out of range. Allowed: "),
        (("runs", "--on", "moon"), "'moon' is not one of 'local', 'kubernetes'"),
        (("show",), "Missing argument 'RUN'"),
        (("init", "a", "--template", "x"), "'--template'"),
    ],
)
def test_what_is_given_is_still_checked(arguments, error):
    assert error in refused(*arguments)


def test_several_values_are_a_list(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    assert tfsteps("runs", "--state", "failed", "--state", "lost")[0] == 0


def test_ctrl_c_while_the_command_loads_is_no_traceback(tmp_path):
    (tmp_path / "rich.py").write_text("raise KeyboardInterrupt\n")
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run([COMMAND, "runs"], env=env, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
