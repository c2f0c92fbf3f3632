"""Each component is one folder of the same files; what is generated of them is up to date and free of traps."""

import importlib
import pathlib

import pytest
from kfp import compiler

import tfsteps
from tests.golden.component_readme import page
from tfsteps.engines.kfp.lint import problems

PACKAGE = pathlib.Path(tfsteps.__file__).parent
COMPONENTS = sorted(file.parent for file in PACKAGE.glob("*/component.py"))
FILES = {"__init__.py", "component.py", "component.yaml", "launcher.py", "README.md"}

each_component = pytest.mark.parametrize("folder", COMPONENTS, ids=lambda folder: folder.name)


def component(folder):
    return getattr(importlib.import_module(f"tfsteps.{folder.name}.component"), folder.name)


def test_there_is_one():
    assert PACKAGE / "train" in COMPONENTS


@each_component
def test_compiled(folder, golden, tmp_path):
    compiler.Compiler().compile(component(folder), str(tmp_path / "component.yaml"))
    text = (tmp_path / "component.yaml").read_text()
    assert problems(text) == []
    golden(folder / "component.yaml", text)


@each_component
def test_readme(folder, golden):
    golden(folder / "README.md", page(component(folder)))


@each_component
def test_files(folder):
    assert {child.name for child in folder.iterdir()} - {"__pycache__"} == FILES
