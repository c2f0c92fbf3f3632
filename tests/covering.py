"""Runs the tests that cover a module: `python -m tests.covering FILE [arguments of pytest]`, by `make test-for`.

They are the test files that import the module, start it as a program or as a command of `tfsteps`, and the one that is
called like it. If they are fewer than three, those of the modules that import it are added, and so on; at last those of
its folder in tests/unit. All is read from the tree of today: data of a coverage run would be of an earlier one, and
says nothing of the launchers that tests start as processes.
"""

import ast
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator

from tfsteps.cli.app import _COMMANDS

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "components"
UNIT = ROOT / "tests/unit"
ENOUGH = 3  # test files


def main(arguments: list[str]) -> int:
    """Return 2 if there is no such module; else pytest's exit code."""
    if not arguments:
        sys.stderr.write("no file: make test-for FILE=components/tfsteps/spec/job.py\n")
        return 2
    file = pathlib.Path(arguments[0]).resolve()
    if not file.is_file() or not file.is_relative_to(PACKAGE) or file.suffix != ".py":
        sys.stderr.write(
            f"{arguments[0]} is not a module of components/tfsteps: run the tests by `make test ARGS=...`\n"
        )
        return 2
    tests = Covering().tests_of(file)
    print(f"{len(tests)} files of tests cover {file.relative_to(ROOT)}", flush=True)
    return subprocess.call(
        [sys.executable, "-m", "pytest", "-q", "-m", "not cluster", *arguments[1:], *tests], cwd=ROOT
    )


class Covering:
    """What names what in the tree."""

    def __init__(self) -> None:
        self.tests = _named_in(ROOT.glob("tests/**/test_*.py"))
        self.modules = _named_in(PACKAGE.rglob("*.py"))

    def tests_of(self, module: pathlib.Path) -> list[str]:
        """Return the test files that cover a module of the package, as paths from the repository's top."""
        nearest, known, tests = {_name(module)}, set[str](), set[pathlib.Path]()
        alike = UNIT / module.relative_to(PACKAGE / "tfsteps").with_name(f"test_{module.stem}.py")
        while nearest and len(tests) < ENOUGH:
            tests |= {file for file, names in self.tests.items() if names & nearest or file == alike}
            known |= nearest
            nearest = {_name(file) for file, names in self.modules.items() if names & nearest} - known
        if tests:
            return sorted(str(file.relative_to(ROOT)) for file in tests)
        folder = next(parent for parent in alike.parents if parent.is_dir())
        return sorted(str(file.relative_to(ROOT)) for file in folder.glob("test_*.py")) or [
            str(folder.relative_to(ROOT))
        ]


def _named_in(files: Iterable[pathlib.Path]) -> dict[pathlib.Path, set[str]]:
    return {file: set(_names(ast.parse(file.read_text()), file)) for file in files}


def _names(tree: ast.Module, file: pathlib.Path) -> Iterator[str]:
    """Yield the names of the modules that a file may import or start: `from a import b` names a and a.b."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                package = _name(file.parents[node.level - 1]) if node.level and PACKAGE in file.parents else ""
                base = ".".join(part for part in (package, node.module) if part)
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)
            case ast.Constant(value=str(text)) if text.startswith("tfsteps.") and PACKAGE in file.parents:
                yield text
            case ast.Call(func, words) if PACKAGE not in file.parents:
                yield from _started(words, first=isinstance(func, ast.Name))
            case ast.List(words) | ast.Tuple(words) if PACKAGE not in file.parents:
                yield from _started(words, first=False)


def _started(words: list[ast.expr], *, first: bool) -> Iterator[str]:
    """Yield the modules that arguments start or name: `"-m", "tfsteps.steps.wait.launcher"`, `tfsteps("rerun")`.

    `first` = the first word may be a command, as in the functions of tests that run one. A list or a set of names of
    modules starts none.
    """
    texts = [str(getattr(word, "value", getattr(word, "id", ""))) for word in words]
    for before, text in zip(["COMMAND" if first else "", *texts], texts, strict=False):
        if text.startswith("tfsteps.") and (first or before == "-m"):
            yield text
        elif before == "COMMAND" and text in _COMMANDS:
            yield f"tfsteps.cli.commands.{_COMMANDS[text].module}"


def _name(file: pathlib.Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
