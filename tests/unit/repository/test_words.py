"""One name for one thing: no class name twice, names that are nouns, one type for one name, and standard terms."""

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
    """Return the name that a node assigns, as a variable, an attribute, a field or a parameter; None = none."""
    match node:
        case ast.Name(ctx=ast.Store()):
            return node.id
        case ast.Attribute(ctx=ast.Store()):
            return node.attr
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


_PHRASES = (
    r"without a word|sign of use|definite no|older than its follower|anew|misfits?|leads? nowhere|pay no heed|"
    r"asks? nobody|asks? until|nobody speaks|speaks? the|to be had|can be had|itself wants|cannot be told|"
    r"for each in|self\.own|v1alpha1 has no times"
)
_PAGES = ["components", "pipelines", "tests", "benchmarks", "manifests", "docs", "*.md", "*.py", "*.toml"]
_GENERATED = ["docs/operate/faults*.md", "docs/operate/soak.md", "docs/operate/performance.md"]


def test_texts_have_no_riddles_and_personifications():
    """Each of these has a standard term: see the rules for documentation in CONTRIBUTING.md."""
    excluded = [f":!{name}" for name in [*_GENERATED, str(pathlib.Path(__file__).relative_to(ROOT))]]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *_PAGES, *excluded], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    phrase = re.compile(rf"\b({_PHRASES})\b".replace(" ", r"[\s#]+"), re.IGNORECASE)
    phrases = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name in filter(None, listed)
        if (ROOT / name).is_file() and (text := (ROOT / name).read_text(encoding="utf-8", errors="replace"))
        for match in phrase.finditer(text)
    ]
    assert phrases == []


def test_a_function_that_returns_problems_is_named_so_and_one_name_has_one_type():
    types = collections.defaultdict(set)
    for _, tree in _modules("components", words=r"\bdef \w*problems\b"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.endswith("problems"):
                types[node.name].add(ast.unparse(node.returns))
    assert "spec_problems" in types
    assert {name: texts for name, texts in types.items() if len(texts) > 1} == {}
    assert {name: texts for name, texts in types.items() if not texts <= {"list[Problem]", "Iterator[Problem]"}} == {}
