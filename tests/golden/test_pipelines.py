"""The compiled pipelines are up to date and free of traps."""

import pathlib
import subprocess
import sys

import pytest

from tfsteps.engines.kfp.lint import problems

PIPELINES = pathlib.Path(__file__).parents[2] / "pipelines"
PROGRAMS = [file for file in sorted(PIPELINES.glob("*.py")) if "@dsl.pipeline" in file.read_text()]


def test_each_compiled_file_has_its_program():
    assert {file.stem for file in (PIPELINES / "compiled").iterdir()} <= {file.stem for file in PROGRAMS} | {".gitkeep"}
    assert PIPELINES / "mnist.py" in PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_compiled(program, golden, tmp_path):
    target = tmp_path / "compiled.yaml"
    subprocess.run([sys.executable, program, "--compile", target], check=True)
    text = target.read_text()
    assert problems(text) == []
    golden(PIPELINES / "compiled" / f"{program.stem}.yaml", text)
