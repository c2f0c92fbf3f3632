"""Modules and functions stay small enough to be read in one go."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[3] / "components" / "tfsteps"
MODULE_LINES = 600
BODY_LINES = 100


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_sizes(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MODULE_LINES
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    assert {node.name: size for node in functions if (size := body_lines(node)) > BODY_LINES} == {}


def body_lines(node):
    """Return the lines of a function without its signature and docstring."""
    first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
    return node.end_lineno - first.lineno + 1
