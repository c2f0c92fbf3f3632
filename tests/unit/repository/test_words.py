"""One name for one thing: no class name twice, and names of variables that are nouns."""

import ast
import collections
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[3]


def _modules(*folders, words=""):
    """Yield the name and the syntax tree of each tracked module whose text has `words`, a regular expression."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in listed.split("\0"):
        if name.endswith(".py") and (ROOT / name).is_file():
            text = (ROOT / name).read_text()
            if re.search(words, text):  # reading the text is 30 times as fast as parsing it
                yield name, ast.parse(text)


def test_no_class_name_stands_for_two_classes():
    files = collections.defaultdict(list)
    for name, tree in _modules("components"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                files[node.name.lstrip("_")].append(name)
    assert len(files) > 500
    assert {name: where for name, where in files.items() if len(where) > 1} == {}


_NO_NOUNS = {"each", "found", "given", "made", "own", "said", "told", "wanted"}
_CHECKED = ["components", "pipelines", "tests", "benchmarks", "page_links.py", "release.py", "official.py"]


def _assigned(node):
    """Return the name that a node assigns, as a variable, a loop's variable, a field or a parameter; None = none."""
    match node:
        case ast.Name(ctx=ast.Store()):
            return node.id
        case ast.arg():
            return node.arg
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return node.name
    return None


def test_variables_fields_and_parameters_are_nouns():
    names = [
        f"{name}:{node.lineno}: {assigned}"
        for name, tree in _modules(*_CHECKED, words=rf"\b({'|'.join(_NO_NOUNS)})\b")
        for node in ast.walk(tree)
        if (assigned := _assigned(node)) in _NO_NOUNS
    ]
    assert names == []
