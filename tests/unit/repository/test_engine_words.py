"""The core names no engine: an engine is one package of `tfsteps.engines`, or of another project, and nothing else.

Docstrings and comments may name one. Packages of platforms may build on an engine, as cube-studio builds on Argo.
"""

import ast
import fnmatch
import functools
import pathlib
import re
from collections.abc import Iterator

import pytest

PACKAGE = pathlib.Path(__file__).parents[3] / "components" / "tfsteps"
OUTSIDE = ("engines/kfp/*", "engines/argo/*", "engines/local/*", "kfp.py", "argo.py", "platforms/*")
"""The engines, what their authors import, and the platforms."""

WORDS = re.compile(r"argo|kfp|workflow|hera\b|kubeflow[ _]?pipelines|(?-i:^local$)|--engine local", re.IGNORECASE)

ALLOWED = {
    "engines/registry.py": (("kfp", "argo", "local"), "the names of the engines of this package: the one table"),
    "steps/*/component.py": (("kfp",), "the component in the notation in which it is published, `component.yaml`"),
    "steps/train_and_finalize/pipeline.py": (("kfp",), "the same, of two steps"),
    "api/shipped_function.py": (
        ("kfp", "argo", "local"),
        "methods for authors, named after the modules of steps; a place",
    ),
    "cli/app.py": (("Kubeflow Pipelines or Argo Workflows", "--engine local"), "printed without loading a plugin"),
    "cli/commands/import_.py": (("Kubeflow Pipelines 1",), "a program to compile by an SDK of another version"),
    "systems/launcher_pod.py": (("KFP_POD_NAME",), "the variables with the pod's name: the engine is known by the pod"),
    "backends/pipeline_link.py": (("workflow",), "a field of TFSTEPS_PIPELINE_URL, which operators have written"),
    "api/run_list.py": (("workflow",), "a key of `runs --output json`, which programs read"),
    "runs/pipeline_record.py": (("workflow",), "a key of `show --output json`, which programs read"),
    "runs/location.py": (("local",), "this machine, as a place"),
    "api/functions.py": (("local",), "this machine, as a place"),
    "cli/commands/run.py": (("local",), "this machine, as a place"),
    "steps/job_step.py": (("local",), "the job system"),
    "systems/registry.py": (("local",), "the job system"),
    "systems/local/*.py": (("local",), "the job system"),
}
"""What may be named, by modules, and why."""


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names and texts of a module with their lines, without its docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield line, text
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                yield line, text
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text) | ast.keyword(arg=str(text)):
                yield line, text
            case ast.alias(name=text, asname=renamed):
                yield line, f"{text} {renamed or ''}".strip()
            case ast.ImportFrom(module=str(text)):
                yield line, text


def named(source: str) -> list[tuple[int, str]]:
    """Return the words of a module that name an engine."""
    return [(line, text) for line, text in words(ast.parse(source)) if WORDS.search(text)]


@functools.cache
def core() -> dict[str, list[tuple[int, str]]]:
    """Return the words of each module of the core that name an engine."""
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    inside = [name for name in modules if not any(fnmatch.fnmatch(name, pattern) for pattern in OUTSIDE)]
    return {name: named(modules[name].read_text()) for name in inside}


def allowed(name: str) -> dict[str, tuple[str, ...]]:
    return {pattern: texts for pattern, (texts, _) in ALLOWED.items() if fnmatch.fnmatch(name, pattern)}


def test_the_core_names_no_engine():
    wrong = [
        f"{name}:{line}: {text!r}"
        for name, lines in core().items()
        for line, text in lines
        if not any(part in text for texts in allowed(name).values() for part in texts)
    ]
    assert not wrong, "a fact of an engine belongs to its plugin: " + "; ".join(wrong)


@pytest.mark.parametrize("pattern", ALLOWED)
def test_what_may_be_named_is_named(pattern):
    texts, reason = ALLOWED[pattern]
    present = [text for name, lines in core().items() if fnmatch.fnmatch(name, pattern) for _, text in lines]
    assert reason
    assert [part for part in texts if not any(part in text for text in present)] == []


@pytest.mark.parametrize(
    "line",
    ["argo = 1", "f(workflow=1)", "x.kfp", "from hera import y", "'Kubeflow Pipelines'", "engine: str = 'local'"],
)
def test_a_name_in_code_counts(line):
    assert named(f"{line} # z\n" if not line.startswith("'") else f"z = {line}")


@pytest.mark.parametrize(
    "line", ['"""Argo."""', "x = 1  # of kfp", "place = Location.LOCAL", "'kubeflow'", "'a local run'"]
)
def test_docstrings_comments_and_places_do_not(line):
    assert not named(line)
