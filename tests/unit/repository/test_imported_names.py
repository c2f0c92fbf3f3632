"""What is imported exists, where nothing else looks: tests that need a cluster, and modules whose names are texts."""

import ast
import importlib
import importlib.util
import pathlib
import pkgutil
import re

import pytest

import tfsteps

TESTS = pathlib.Path(__file__).parents[2]
FILES = sorted(TESTS.rglob("*.py"))
PACKAGE = pathlib.Path(tfsteps.__file__).parent
SUBPACKAGES = "|".join(sorted(module.name for module in pkgutil.iter_modules([str(PACKAGE)])))
REFERENCE = re.compile(rf"tfsteps\.({SUBPACKAGES})(\.\w+)*(:\w+)?")


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


@pytest.mark.parametrize(
    "folder", sorted({file.parent for file in PACKAGE.rglob("*.py")}), ids=lambda folder: folder.name
)
def test_modules_and_objects_whose_names_are_texts_exist(folder):
    """A plug-in loads them when they are needed, and a fork server hides it when it cannot."""
    texts = {
        node.value
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and REFERENCE.fullmatch(node.value)
    }
    for text in sorted(texts):
        pkgutil.resolve_name(text)
