"""Tests that need a cluster import what exists: no other check reads them before a cluster is there."""

import ast
import importlib
import importlib.util
import pathlib

import pytest

TESTS = pathlib.Path(__file__).parents[2]
FILES = sorted(TESTS.rglob("*.py"))


def missing(file):
    """Yield what a module imports from tfsteps, at its top or inside, and is not there."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "tfsteps":
            if not importlib.util.find_spec(node.module):
                yield node.module
                continue
            module = importlib.import_module(node.module)
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                is_module = hasattr(module, "__path__") and importlib.util.find_spec(name)
                if not hasattr(module, alias.name) and not is_module:
                    yield name


@pytest.mark.parametrize(
    "folder", sorted({file.parent for file in FILES}), ids=lambda folder: str(folder.relative_to(TESTS))
)
def test_imported_names_exist(folder):
    assert [f"{file.name}: {name}" for file in FILES if file.parent == folder for name in missing(file)] == []
