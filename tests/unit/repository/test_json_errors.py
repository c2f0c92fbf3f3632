"""Every place that decodes JSON of others catches all that decoding raises: a RecursionError is no DecodeError."""

import ast
import pathlib

import tfsteps

PACKAGE = pathlib.Path(tfsteps.__file__).parent
PARTS = {"DecodeError", "MsgspecError", "JSONDecodeError"}


def test_all_use_the_same_errors():
    calls = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}"
        for file in PACKAGE.rglob("*.py")
        if file.name != "json_errors.py" and "starter" not in file.parts
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in PARTS
    ]
    assert calls == []
