"""How much a reader meets: modules, lines, private functions, circles of imports, and the jumps of a walk.

python -m benchmarks.structure [--at COMMIT] [--peers]

`--at` measures an earlier commit beside the files as they are. `--peers` adds packages of the same field from the
package registry, each in a folder of its own that is removed afterwards.

A jump is a function or module of the package that is entered for the first time on a walk: each is a place that a
reader has to find. Classes that an import defines are none. Four walks are run: from a job file to the object that is
created for it, a whole local run, from the verdict on a failed job to the exit code of its step, and from the eviction
of a launcher to the decision about its job. The last two begin at a function, and are followed on the small API servers
of the tests.
"""

import argparse
import ast
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = pathlib.PurePath("components/tfsteps")
PEERS = {"kopf": "kopf", "torchx": "torchx", "hera": "hera", "httpx": "httpx"}
"""Import names of peers, and how the registry names them."""


class Walk(NamedTuple):
    """A walk through the code.

    Attributes:
        program: The module that is run.
        arguments: Its arguments; JOB is a job file.
        begins: The function at which it begins; empty = at the start of the program.
    """

    program: str
    arguments: list[str]
    begins: str = ""


WALKS = {
    "job file to object": Walk("tfsteps.cli", ["run", "JOB", "--dry-run", "--on", "kubernetes"]),
    "local run": Walk("tfsteps.cli", ["run", "JOB", "--on", "local"]),
    "verdict to exit code": Walk("benchmarks.walk_jobs", ["verdict"], "TFJob.verdict"),
    "evict to decision": Walk("benchmarks.walk_jobs", ["evict"], "KubernetesJob.stop"),
}
_LONGEST_SECONDS = 120.0  # a walk takes seconds
_JOB = {"name": "walk", "image": "a:1", "command": ["echo", "up"], "roles": {"worker": {"replicas": 2}}}
_WALKER = """
import atexit, sys, threading
package, record, begins, program = (sys.argv.pop(1) for _ in range(4))
seen, begun = set(), [not begins]
def entered(frame, event, argument):
    code = frame.f_code
    body = code.co_flags & 2  # of a function: those of modules and classes have no locals of their own
    if event == "call" and body and package in code.co_filename and not code.co_name.startswith("<"):
        begun[0] = begun[0] or code.co_qualname == begins
        if begun[0]:
            seen.add((code.co_filename.rpartition(package)[2], code.co_qualname))
def write():
    sys.setprofile(None)
    open(record, "w").write("\\n".join("\\t".join(place) for place in sorted(seen)))
atexit.register(write)
threading.setprofile(entered)
sys.setprofile(entered)
import importlib
sys.exit(importlib.import_module(program).main())
"""


class Structure(NamedTuple):
    """What a package consists of.

    Attributes:
        modules: Modules.
        lines: Lines of all modules.
        longest: Lines of the longest.
        functions: Private functions and methods.
        once: Of these, how many are named at one place only beside their definition.
        circles: Groups of modules that import each other, imports inside functions included.
    """

    modules: int
    lines: int
    longest: int
    functions: int
    once: int
    circles: int


class Jumps(NamedTuple):
    """What one walk enters: functions, and the modules that they are in."""

    functions: int
    modules: int


def measure(package: pathlib.Path) -> Structure:
    """Return the structure of the package in a folder; its tests are left out."""
    trees = parsed(package)
    defined, named = set[str](), collections.Counter[str]()
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name.startswith("_") and not name.endswith("__"):
                    defined.add(name)
            case ast.Name(id=name) | ast.Attribute(attr=name):
                named[name] += 1
    lines = [file.read_text(encoding="utf-8").count("\n") for file in trees]
    once = sum(named[name] == 1 for name in defined)
    return Structure(len(trees), sum(lines), max(lines), len(defined), once, _circles(imports_of(package, trees)))


def parsed(package: pathlib.Path) -> dict[pathlib.Path, ast.Module]:
    """Return the syntax trees of the package in a folder; its tests are left out."""
    files = [file for file in sorted(package.rglob("*.py")) if not {"test", "tests"} & set(file.parts)]
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


def imports_of(package: pathlib.Path, trees: dict[pathlib.Path, ast.Module]) -> dict[str, set[str]]:
    """Return for each module the modules of its package that it imports, also inside functions."""
    names = {_module(package, file): file for file in trees}
    return {name: set(_imports(name, file, trees[file], names)) for name, file in names.items()}


def _circles(reached: dict[str, set[str]]) -> int:
    """Count the groups of modules that can reach each other by imports. It extends its argument."""
    for through, further in reached.items():  # Warshall's closure
        for targets in reached.values():
            if through in targets:
                targets.update(further)
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in reached}
    return sum(len(group) > 1 for group in groups)


def _module(package: pathlib.Path, file: pathlib.Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(name: str, file: pathlib.Path, tree: ast.Module, known: dict[str, pathlib.Path]) -> Iterator[str]:
    """Yield the known modules that a module imports; a package's `__init__` is none of what its modules import."""
    here = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases if alias.name in known and alias.name != name)
            case ast.ImportFrom(module=module, names=aliases, level=level):
                start = here[: len(here) - level + 1] if level else []
                base = ".".join([*start, *([module] if module else [])])
                for alias in aliases:
                    target = f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base
                    if target in known and target != name:
                        yield target


def walk(tree: pathlib.Path, chosen: Walk) -> Jumps | None:
    """Walk through the source tree of a commit, and return what was entered; None = that commit cannot be walked.

    The program of the walk and the tests' API servers are those of the files as they are.
    """
    with tempfile.TemporaryDirectory() as folder:
        job, record = pathlib.Path(folder, "job.json"), pathlib.Path(folder, "record")
        job.write_text(json.dumps(_JOB))
        arguments = [str(job) if argument == "JOB" else argument for argument in chosen.arguments]
        path = os.pathsep.join([str(tree / PACKAGES.parent), str(ROOT)])
        env = {**os.environ, "PYTHONPATH": path, "TFSTEPS_HOME": folder, "KUBECONFIG": ""}
        command = [
            sys.executable,
            "-c",
            _WALKER,
            f"{PACKAGES}/",
            str(record),
            chosen.begins,
            chosen.program,
            *arguments,
        ]
        try:
            done = subprocess.run(
                command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=_LONGEST_SECONDS
            )
        except subprocess.TimeoutExpired:  # which ends it by SIGKILL
            print(f"{' '.join(chosen.arguments)} took longer than {_LONGEST_SECONDS:.0f} s", file=sys.stderr)
            return None
        if done.returncode:
            print(f"{' '.join(chosen.arguments)} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
            return None
        places = [line.split("\t") for line in record.read_text().splitlines()]
    return Jumps(len(places), len({module for module, _ in places})) if places else None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at", help="commit to measure too", metavar="COMMIT")
    parser.add_argument("--peers", action="store_true", help="measure peers from the package registry too")
    args = parser.parse_args()
    print("| package | modules | lines | lines a module | longest | private functions | called once | circles |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        trees, earlier = {"tfsteps": ROOT}, pathlib.Path(folder, "earlier")
        if args.at:
            subprocess.run(["git", "worktree", "add", "--quiet", "--detach", earlier, args.at], cwd=ROOT, check=True)
            trees = {f"tfsteps at {args.at}": earlier, **trees}
        try:
            for name, tree in trees.items():
                _print_row(name, measure(tree / PACKAGES))
            for name, package in PEERS.items() if args.peers else ():
                target = pathlib.Path(folder, name)
                install = ["uv", "pip", "install", "--quiet", "--no-deps", "--target", str(target), package]
                subprocess.run([pathlib.Path(sys.executable).parent / install[0], *install[1:]], check=True)
                _print_row(name, measure(target / name))
            print("\n| walk | in | functions | modules |\n|---|---|---|---|")
            for what, chosen in WALKS.items():
                for name, tree in trees.items():
                    jumps = walk(tree, chosen)
                    cells = f"{jumps.functions} | {jumps.modules}" if jumps else "not measured | not measured"
                    print(f"| {what} | {name} | {cells} |")
        finally:
            if args.at:
                subprocess.run(["git", "worktree", "remove", "--force", earlier], cwd=ROOT, check=True)


def _print_row(name: str, structure: Structure) -> None:
    share = f"{structure.once} ({structure.once / structure.functions:.0%})"
    average = round(structure.lines / structure.modules)
    cells = [
        name,
        structure.modules,
        structure.lines,
        average,
        structure.longest,
        structure.functions,
        share,
        structure.circles,
    ]
    print("|", " | ".join(map(str, cells)), "|")


if __name__ == "__main__":
    main()
