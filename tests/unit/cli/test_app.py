"""What the command loads before it does anything: each call of it waits for that."""

import os
import subprocess
import sys

import pytest

from tests.unit.cli.command import COMMAND, refused, tfsteps

PROGRAM = """
import sys
from tfsteps.cli.app import app

for arguments in (["--help"], ["runs", "--since", "1d"], ["validate", sys.argv[1], "--system", "kubeflow"]):
    try:
        app(arguments, prog_name="tfsteps")
    except SystemExit as end:
        assert end.code in (0, None), (arguments, end.code)
print(*sorted({name.split(".")[0] for name in sys.modules} & {"hera", "kfp", "pydantic", "rich", "tensorboard"}))
print("tfsteps.systems.kubernetes.follow.job" in sys.modules)
"""


def test_a_command_loads_neither_pydantic_nor_what_follows_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    job = tmp_path / "job.yaml"
    job.write_text("name: a\nimage: registry.example/train:1\ncommand: [train]\nroles: {worker: {}}\n")
    command = [sys.executable, "-c", PROGRAM, str(job)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert printed.splitlines()[-2:] == ["", "False"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("runs", "--limit", "x"), "'--limit'"),
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
