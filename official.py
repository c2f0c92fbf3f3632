"""Writes the components as kubeflow/pipelines-components takes them: `make official`, in docs/contribute/release.md.

Each is a `@dsl.component` whose function runs the launcher of tfsteps, installed from the package index, with the
arguments of its own process: it is the program of `tfsteps.kfp`, in a stock image of Python.
"""

import argparse
import importlib
import pathlib
import re
import subprocess
import sys
import textwrap
from typing import Any

from tfsteps import __version__
from tfsteps.engines.kfp.component import LauncherComponent

ROOT = pathlib.Path(__file__).resolve().parent
STEPS = ROOT / "components/tfsteps/steps"
_LOGIN = r"[A-Za-z0-9](-?[A-Za-z0-9]){0,38}"
_TYPES = {
    "String": "str",
    "Integer": "int",
    "Float": "float",
    "Boolean": "bool",
    "Dict": "dict",
    "List": "list",
    "TaskConfig": "dsl.TaskConfig",
    "PipelineTaskFinalStatus": "dsl.PipelineTaskFinalStatus",
}
_LEFT_OUT = "code"  # an input that is packed when a pipeline is compiled, which only components of the package do
_RUN_ID = "Groups the jobs of a run: `dsl.PIPELINE_JOB_ID_PLACEHOLDER`. Empty = taken from the output path."
_CACHE = "Switch the cache off, by `set_caching_options(False)`: a result of the cache is that of another job."
_TAGS = ("training", "tensorflow", "distributed")
_PACKAGE = f"tfsteps[store]=={__version__}"
_KFP = "2.15.0"  # the first whose components can pass what is set on a task to the pods that they create
_WIDTH = 120


def main() -> None:
    """Write components/training/<step>/ for each component below the folder; exit if an argument is not valid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="where components/ is, or is made; a clone, for example")
    parser.add_argument("--owners", default="", help="GitHub logins of the approvers, separated by commas")
    parser.add_argument(
        "--base", default="python:3.11-slim-bookworm", help="image: that repository takes python:X.Y..."
    )
    options = parser.parse_args()
    owners = [owner.strip() for owner in options.owners.split(",") if owner.strip()]
    if wrong := [owner for owner in owners if not re.fullmatch(_LOGIN, owner)]:
        sys.exit(f"OWNERS has {wrong[0]!r}, which is not a GitHub login: letters, digits and single '-', 39 at most")
    if not owners:
        sys.exit("OWNERS is not set: name members of the Kubeflow organization who approve changes, OWNERS=ada,grace")
    if not re.fullmatch(r"python:\d+\.\d+.*|ghcr\.io/kubeflow/.*", options.base):
        sys.exit(f"BASE is {options.base!r}; that repository takes python:X.Y... and ghcr.io/kubeflow/... only")
    dates = re.findall(rf"(?m)^## {re.escape(__version__)} - (\d{{4}}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text())
    if not dates:
        sys.exit(f"CHANGELOG.md has no section of {__version__} with its date: add `## {__version__} - YYYY-MM-DD`")
    for source in sorted(STEPS.glob("*/component.py")):
        name = source.parent.name
        component = getattr(importlib.import_module(f"tfsteps.steps.{name}.component"), name)
        folder = options.folder / "components/training" / name
        (folder / "tests").mkdir(parents=True, exist_ok=True)
        files = {
            "__init__.py": f'from .component import {name}\n\n__all__ = ["{name}"]\n',
            "component.py": _program(name, component, options.base),
            "metadata.yaml": _METADATA.format(
                name=name, kfp=_KFP, tags="\n".join(f"  - {tag}" for tag in _TAGS), date=dates[0]
            ),
            "OWNERS": "".join(["approvers:\n", *(f"  - {owner}\n" for owner in owners)]),
            "README.md": _page(name, component, dates[0], owners),
            "tests/__init__.py": "",
            "tests/test_component.py": _TESTS.format(name=name, base=options.base, package=_PACKAGE),
        }
        for path, text in files.items():
            (folder / path).write_text(text)
        print(folder)


def _program(name: str, component: LauncherComponent, base: str) -> str:
    """Return component.py."""
    parameters, outputs = _parameters(component), _outputs(component)
    passthroughs = [
        f"dsl.TaskConfigPassthrough(field=dsl.TaskConfigField.{item.field.name}, apply_to_task={item.apply_to_task})"
        for item in getattr(component.component_spec, "task_config_passthroughs", None) or []
    ]
    docstring = [
        *_overview(component, _WIDTH - 4),
        "Args:",
        *(f"    {item}: {text}" for item, (_, _, text) in parameters.items()),
        "",
        "Returns:",
        f"    Outputs: {_returned(component)}",
    ]
    fields = ", ".join(f'("{item}", {_type(output.type)})' for item, output in outputs.items())
    lines = [
        "from typing import NamedTuple" + (", Optional" if "Optional[" in str(parameters) else ""),
        "",
        "from kfp import dsl",
        "@dsl.component(",
        f'    base_image="{base}", packages_to_install=["{_PACKAGE}"],',
        f"    task_config_passthroughs=[{', '.join(passthroughs)},]," if passthroughs else "",
        ")",
        f"def {name}(",
        *(f"    {item}: {kind}{default and f' = {default}'}," for item, (kind, default, _) in parameters.items()),
        f') -> NamedTuple("Outputs", [{fields}]):',
        textwrap.indent('"""' + "\n".join(docstring), "    "),
        '    """' + ("  # noqa: E501" if max(map(len, docstring)) > _WIDTH - 4 else ""),
        f"    from tfsteps.steps.{name}.launcher import main",
        "    from tfsteps.text.streams import flush_and_exit",
        "    # It reads the arguments of this process and writes the outputs: kfp must not write them after it.",
        "    flush_and_exit(main())",
    ]
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", str(_WIDTH), "-"]
    return subprocess.run(command, input="\n".join(lines), check=True, text=True, stdout=subprocess.PIPE).stdout


def _outputs(component: LauncherComponent, *, artifacts: bool = False) -> dict[str, Any]:
    """Return the output parameters, or the output artifacts."""
    outputs = component.component_spec.outputs
    return {name: output for name, output in outputs.items() if output.type.startswith("system.") is artifacts}


def _returned(component: LauncherComponent) -> str:
    """Return the description of the output parameters, on one line as a cell of a table needs it."""
    return " ".join(f"`{name}`: {_flat(output.description)}" for name, output in _outputs(component).items())


def _parameters(component: LauncherComponent) -> dict[str, tuple[str, str, str]]:
    """Return type, default as source (empty = required) and description of each parameter; the required are first."""
    parameters = {
        name: (f"dsl.Output[{_type(output.type)}]", "", _flat(output.description))
        for name, output in _outputs(component, artifacts=True).items()
    }
    for name, parameter in component.component_spec.inputs.items():
        kind = _type(parameter.type)
        if parameter.type.startswith("system."):
            kind = f"dsl.Input[{kind}]"
        elif parameter.optional and parameter.default is None and not kind.startswith("dsl."):
            kind = f"Optional[{kind}]"
        # kfp takes no default for a status
        default = repr(parameter.default) if parameter.optional and "FinalStatus" not in kind else ""
        if name != _LEFT_OUT:
            parameters[name] = (kind, default, _RUN_ID if name == "run_id" else _flat(parameter.description))
    return dict(sorted(parameters.items(), key=lambda item: item[1][1] != ""))


def _type(schema: str) -> str:
    return _TYPES.get(schema) or f"dsl.{schema.removeprefix('system.').partition('@')[0]}"


def _flat(text: str) -> str:
    return " ".join(text.split())


def _overview(component: LauncherComponent, width: int) -> list[str]:
    """Return the lines of the description, each paragraph with an empty line after it."""
    first, *rest = component.component_spec.description.split("\n", 1)
    return [line for text in [first, *map(_flat, rest), _CACHE] for line in [*textwrap.wrap(text, width), ""]]


def _page(name: str, component: LauncherComponent, date: str, owners: list[str]) -> str:
    """Return README.md, as that repository's check compares it with what it makes of the other files."""
    rows = [
        f"| `{item}` | `{kind}` | {_default(default)} | {text} |"
        for item, (kind, default, text) in _parameters(component).items()
    ]
    fields = ", ".join(f"('{item}', {_type(output.type)})" for item, output in _outputs(component).items())
    return _PAGE.format(
        name=name,
        title=" ".join(word.capitalize() for word in name.split("_")),
        overview="\n".join(_overview(component, _WIDTH)),
        inputs="\n".join(rows),
        outputs=f"| Output | `NamedTuple('Outputs', [{fields}])` | {_returned(component)} |",
        kfp=_KFP,
        tags="\n".join(f"  - {tag}" for tag in _TAGS),
        date=date,
        owners="\n".join(f"    - {owner}" for owner in owners),
    )


def _default(source: str) -> str:
    """Return the cell of a default; a required parameter has None there."""
    value = source.strip("'") or ('""' if source else None)
    return f"`{value}`"


_PAGE = """# {title} ✨

> ⚠️ **Stability: beta** — This asset is not yet stable and may change.

## Overview 🧾

{overview}
## Inputs 📥

| Parameter | Type | Default | Description |
|-----------|------|---------|-------------|
{inputs}

## Outputs 📤

| Name | Type | Description |
|------|------|-------------|
{outputs}

## Metadata 🗂️

- **Name**: {name}
- **Stability**: beta
- **Dependencies**:
  - Kubeflow:
    - Name: Pipelines, Version: >={kfp}
- **Tags**:
{tags}
- **Last Verified**: {date} 00:00:00+00:00
- **Owners**:
  - Approvers:
{owners}
"""
_METADATA = """---
name: {name}
stability: beta
dependencies:
  kubeflow:
    - name: Pipelines
      version: '>={kfp}'
tags:
{tags}
lastVerified: {date}T00:00:00Z
"""
_TESTS = '''"""Tests of the component `{name}`."""

import inspect
import sys
import types

from kfp import compiler

from ..component import {name}


def test_compiled(tmp_path):
    """It compiles, and names its image and the version of its package."""
    compiler.Compiler().compile({name}, str(tmp_path / "{name}.yaml"))
    compiled = (tmp_path / "{name}.yaml").read_text()
    assert "image: {base}" in compiled
    assert "{package}" in compiled


def test_launcher(monkeypatch):
    """It runs the launcher of its package, which need not be installed here, and ends with its exit code."""
    codes = []
    launcher, streams = types.ModuleType("launcher"), types.ModuleType("streams")
    launcher.main, streams.flush_and_exit = lambda: 10, codes.append
    monkeypatch.setitem(sys.modules, "tfsteps.steps.{name}.launcher", launcher)
    monkeypatch.setitem(sys.modules, "tfsteps.text.streams", streams)
    {name}.python_func(*[None] * len(inspect.signature({name}.python_func).parameters))
    assert codes == [10]
'''

if __name__ == "__main__":
    main()
