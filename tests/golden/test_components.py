"""Each component is one folder of the same files; what is generated of them is up to date and free of traps."""

import importlib
import pathlib
import subprocess
import sys

import pytest

import tfsteps.kfp
from tests.golden.component_readme import page, reference
from tfsteps.engines.kfp.lint import lint_messages

STEPS = pathlib.Path(tfsteps.__file__).parent / "steps"
COMPONENTS = sorted(file.parent for file in STEPS.glob("*/component.py"))
PIPELINES = sorted(file.parent for file in STEPS.glob("*/pipeline.py"))  # of components, offered as one
REFERENCE = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "components.md"
FILES = {"__init__.py", "component.py", "component.yaml", "launcher.py", "README.md"}
PIPELINE_FILES = {"__init__.py", "pipeline.py", "pipeline.yaml", "README.md"}
COMPILE = """
import sys
from kfp import compiler
import tfsteps.kfp
for name in sys.argv[2:]:
    compiler.Compiler().compile(getattr(tfsteps.kfp, name), f"{sys.argv[1]}/{name}.yaml")
"""

each_component = pytest.mark.parametrize("folder", [*COMPONENTS, *PIPELINES], ids=lambda folder: folder.name)


def kind(folder):
    return "pipeline" if folder in PIPELINES else "component"


def component(folder):
    return getattr(importlib.import_module(f"tfsteps.steps.{folder.name}.{kind(folder)}"), folder.name)


def test_there_is_one():
    assert STEPS / "train" in COMPONENTS
    assert STEPS / "train_and_finalize" in PIPELINES


@each_component
def test_exported(folder):
    assert component(folder) is getattr(tfsteps.kfp, folder.name)
    assert folder.name in tfsteps.kfp.__all__


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder of all components, compiled by a process of their own: in one with Hera YAML is written otherwise."""
    target = tmp_path_factory.mktemp("compiled")
    names = [folder.name for folder in [*COMPONENTS, *PIPELINES]]
    subprocess.run([sys.executable, "-c", COMPILE, target, *names], check=True)
    return target


@each_component
def test_compiled(folder, golden, compiled):
    text = (compiled / f"{folder.name}.yaml").read_text()
    assert lint_messages(text) == []
    golden(folder / f"{kind(folder)}.yaml", text)


@each_component
def test_readme(folder, golden):
    golden(folder / "README.md", page(component(folder), f"{kind(folder)}.py"))


def test_reference(golden):
    order = ["train", "train_and_finalize", "launch", "wait", "cleanup", "evaluate_gate", "notify", "tensorboard"]
    named = {folder.name: component(folder) for folder in [*COMPONENTS, *PIPELINES]}
    assert sorted(named) == sorted(order)
    golden(REFERENCE, reference({name: named[name] for name in order}))


@each_component
def test_files(folder):
    assert {child.name for child in folder.iterdir()} - {"__pycache__"} == (
        PIPELINE_FILES if folder in PIPELINES else FILES
    )
