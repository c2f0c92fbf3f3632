"""Which cases of the matrix CI runs: each fault and each step at least once, and all cases that changed code can break.

The mutants tell which cases a module can break. So of the files that differ from the base of the branch

- a module that mutants edit adds the cases that must go red with them;
- another module beside one that mutants edit, and this folder, add all cases: nobody has said which they can break;
- any other file adds none.

The base is FAULTS_SINCE if it is set, else where the branch left origin/main, else, on main itself, the last commit but
one. All cases are run where git knows no base.
"""

import functools
import os
import pathlib
import subprocess
from collections import Counter
from collections.abc import Iterable

from tests.faults.cases import CASES, LIFE, OUTAGES, Case
from tests.faults.mutations import MUTANTS, PACKAGE

ROOT = pathlib.Path(__file__).parents[2]
HERE = pathlib.Path(__file__).parent


def chosen(root: pathlib.Path = ROOT) -> set[str]:
    """Return the names of the cases that CI runs."""
    files = changed_files(root)
    return set(CASES) if files is None else covering() | at_risk(files)


def covering() -> set[str]:
    """Return the names of a few cases, in which each fault and each step of each table of the page occurs."""
    cases, names, steps = list(CASES.values()), set(), Counter[str]()
    missing = {part for case in cases for part in parts(case)}
    while missing:
        # The case that adds most; of those, one of the step that has the fewest; of those, the first.
        case = max(cases, key=lambda case: (len(parts(case) & missing), -steps[case.step]))
        names.add(case.name)
        steps[case.step] += 1
        missing -= parts(case)
    return names


def parts(case: Case) -> set[tuple[str, str, str]]:
    """Return what a case shows: a step and a fault of its table."""
    table = "life" if case in LIFE else "outages" if case in OUTAGES else "requests"
    return {(table, "step", case.step), (table, "fault", case.fault)}


def at_risk(files: Iterable[pathlib.Path]) -> set[str]:
    """Return the names of the cases that changed files can break."""
    by_file, names = _by_file(), set[str]()
    for file in files:
        beside = file.suffix == ".py" and file.parent in {known.parent for known in by_file}
        names |= by_file.get(file, set(CASES) if beside or HERE in file.parents else set())
    return names


@functools.cache
def _by_file() -> dict[pathlib.Path, set[str]]:
    """Return the cases of all mutants of each file that mutants edit."""
    by_file: dict[pathlib.Path, set[str]] = {}
    for mutant in MUTANTS:
        for edit in mutant.edits:
            by_file.setdefault(PACKAGE / edit.file, set()).update(case.name for case in mutant.chosen())
    return by_file


def changed_files(root: pathlib.Path) -> list[pathlib.Path] | None:
    """Return the files that differ from the base, deleted and untracked ones too; None = there is no base."""
    base = _base(root)
    # Without renames: of a file that has moved, both names count.
    changed = _git(root, "diff", "--name-only", "--no-renames", "-z", base) if base else None
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    if changed is None or untracked is None:
        return None
    return [root / name for name in (changed + untracked).split("\0") if name]


def _base(root: pathlib.Path) -> str | None:
    if since := os.environ.get("FAULTS_SINCE"):
        return since
    left = _git(root, "merge-base", "HEAD", "origin/main")
    return left if left and left != _git(root, "rev-parse", "HEAD") else _git(root, "rev-parse", "--verify", "HEAD~1")


def _git(root: pathlib.Path, *args: str) -> str | None:
    """Return what git prints; None if it fails or is not there."""
    try:
        done = subprocess.run(["git", *args], cwd=root, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip("\n")
