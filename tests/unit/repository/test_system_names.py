"""What holds for a job system or an engine is asked of it, not concluded from its name: other packages add some."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

import tfsteps
from tfsteps.engines import registry as engines
from tfsteps.systems import registry

PACKAGE = pathlib.Path(tfsteps.__file__).parent
NAMES = {*registry.NAMES, *engines.NAMES}
OWN = {  # they compare words of their own with these names
    PACKAGE / folder / name.replace("-", "_") for folder in ("systems", "platforms", "engines") for name in NAMES
} | {PACKAGE / f"{name}.py" for name in engines.NAMES}
FILES = [
    file
    for file in sorted(PACKAGE.rglob("*.py"))
    if OWN.isdisjoint([file, *file.parents]) and "starter" not in file.parts  # programs of users
]


def compared(source):
    """Return the line of each comparison with the name of a system or an engine, or of a system with a constant."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.match_case):
            operands = [value.value for value in ast.walk(node.pattern) if isinstance(value, ast.MatchValue)]
        else:
            continue
        parts = [part for operand in operands for part in getattr(operand, "elts", [operand])]
        named = any(isinstance(part, ast.Constant) and part.value in NAMES for part in parts)
        of_system = any("system" in (getattr(part, "attr", ""), getattr(part, "id", "")) for part in parts)
        fixed = any(isinstance(part, ast.Attribute) and part.attr.isupper() for part in parts)
        if named or (of_system and fixed):
            lines.append(operands[0].lineno)
    return lines


def test_no_comparison_with_the_name_of_a_job_system_or_an_engine():
    lines = {str(file.relative_to(PACKAGE)): lines for file in FILES if (lines := compared(file.read_text()))}
    assert not lines, "ask the job system, the engine's plugin, or `Status.location`, instead"


@pytest.mark.parametrize(
    "source",
    [
        "status.system == 'local'",
        "'hai' != name",
        "system in ('local', 'jobset')",
        "status.system == Location.KUBERNETES",
        "system == Location.LOCAL",
        "compiled.engine == 'kfp'",
        "match name:\n    case 'kubeflow' | 'jobs': pass",
    ],
)
def test_it_finds_them(source):
    assert compared(source)


def test_the_table_of_places_is_what_the_plugins_declare(monkeypatch):
    monkeypatch.setenv("MARSV2_SERVER", "http://hai.example")
    platforms = [name for name in registry.NAMES if registry.plugin(name).platform]
    assert [*registry.OWN_BACKEND_LOCATIONS] == ["local", "kubernetes", *platforms]
    assert [registry.plugin(name).system().location for name in platforms] == platforms


def test_a_place_is_known_without_its_package():
    code = (
        "import sys; from tfsteps.systems import registry; assert registry.is_backend_location('hai');"
        "assert not registry.is_backend_location('t9k'); sys.exit(any('platforms' in name for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


NAMED = {  # in the core
    "systems/registry.py",  # where they are found
    "systems/platforms.py",
    "spec/short_forms.py",  # whose notations it reads
    "tuning/recommendation.py",
    "systems/expansion.py",  # they run on HAI's ranks, too
    "systems/restart_policy.py",
    "systems/plugin.py",  # examples
    "cli/app.py",
    "cli/commands/import_.py",
    "backends/platform.py",
}


def test_the_core_names_no_platform():
    pattern = re.compile(r"\b(hai|t9k|tfjob.v1alpha1|cube.studio)\b", re.IGNORECASE)
    core = [file for file in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "platforms" not in file.parents]
    named = {str(file.relative_to(PACKAGE)) for file in core if pattern.search(file.read_text())}
    assert named == NAMED
