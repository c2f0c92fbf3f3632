"""`make official`: what kubeflow/pipelines-components asks of a component, and one that runs a job as there."""

import ast
import json
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from tfsteps import __version__ as version

ROOT = pathlib.Path(__file__).parents[3]
STEPS = sorted(file.parent.name for file in ROOT.glob("components/tfsteps/steps/*/component.py"))
FILES = [
    *("OWNERS", "README.md", "__init__.py", "component.py", "metadata.yaml"),
    *("tests/__init__.py", "tests/test_component.py"),
]


def official(*arguments):
    command = [sys.executable, ROOT / "official.py", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def components(tmp_path_factory):
    """The folder of the components."""
    folder = tmp_path_factory.mktemp("official")
    done = official(folder, "--owners", "ada, grace-h", "--base", "python:3.12-slim@sha256:00")
    assert done.returncode == 0, done.stderr
    return folder / "components/training"


def test_each_step_has_the_files(components):
    assert sorted(path.name for path in components.iterdir()) == STEPS
    for name in STEPS:
        files = [path for path in (components / name).rglob("*") if path.is_file()]
        assert sorted(str(path.relative_to(components / name)) for path in files) == FILES


@pytest.mark.parametrize("name", STEPS)
def test_the_program(components, name):
    """Only the standard library and kfp are imported at the top, and each parameter and output is described."""
    tree = ast.parse((components / name / "component.py").read_text())
    imported = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert (imported, function.name, len(tree.body)) == (["typing", "kfp"], name, 3)
    (decorator,) = function.decorator_list
    assert ast.unparse(decorator.func) == "dsl.component"
    values = {keyword.arg: ast.unparse(keyword.value) for keyword in decorator.keywords}
    assert values["base_image"] == "'python:3.12-slim@sha256:00'"
    assert values["packages_to_install"] == f"['tfsteps[store]=={version}']"
    described = re.findall(r"(?m)^    (\w+): \S", ast.get_docstring(function))
    assert described == [*(parameter.arg for parameter in function.args.args), "Outputs"]
    assert "code" not in described, "it is packed by the components of the package alone"


INTERFACES = """
import importlib, json, sys
import tfsteps.kfp
sys.path.insert(0, sys.argv[1])
described = {}
for name in sys.argv[2:]:
    components = (getattr(tfsteps.kfp, name), getattr(importlib.import_module(f"{name}.component"), name))
    described[name] = [
        [
            {item: (declared.type, declared.default) for item, declared in spec.inputs.items() if item != "code"},
            {item: declared.type for item, declared in spec.outputs.items()},
            [(item.field.name, item.apply_to_task) for item in getattr(spec, "task_config_passthroughs", None) or []],
        ]
        for spec in (component.component_spec for component in components)
    ]
print(json.dumps(described))
"""


def test_the_interface_is_that_of_the_package(components):
    command = [sys.executable, "-c", INTERFACES, components, *STEPS]
    described = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert list(described) == STEPS
    for name, (ours, theirs) in described.items():
        assert theirs == ours, name


@pytest.mark.parametrize("name", STEPS)
def test_the_metadata(components, name):
    metadata = yaml.safe_load((components / name / "metadata.yaml").read_text())
    assert list(metadata) == ["name", "stability", "dependencies", "tags", "lastVerified"]
    assert (metadata["name"], metadata["stability"]) == (name, "beta")
    ((pipelines),) = metadata["dependencies"]["kubeflow"]
    assert (pipelines["name"], bool(re.fullmatch(r">=\d+\.\d+\.\d+", pipelines["version"]))) == ("Pipelines", True)
    assert metadata["lastVerified"].tzinfo is not None
    assert yaml.safe_load((components / name / "OWNERS").read_text()) == {"approvers": ["ada", "grace-h"]}
    page = (components / name / "README.md").read_text()
    assert all(f"\n{line}\n" in page for line in (f"- **Name**: {name}", "    - grace-h", "## Overview 🧾"))
    assert all(line == line.rstrip() for line in page.splitlines())
    assert not re.search(r"<\w+>", re.sub(r"`[^`]*`", "", page)), "Markdown takes it for HTML"


def test_its_own_tests(components):
    """They pass where the package is not installed, as in that repository's CI: pytest imports it here."""
    command = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    done = subprocess.run([*command, components], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{2 * len(STEPS)} passed" in done.stdout


def test_it_runs_a_job(components, tmp_path):
    """As a pod does: kfp's executor calls the function, and what the launcher wrote is not written again."""
    outputs = {
        "outputFile": f"{tmp_path}/out/executor_output.json",
        "parameters": {name: {"outputFile": f"{tmp_path}/out/{name}"} for name in ("job", "failure", "fault")},
        "artifacts": {"logs": {"artifacts": [{"name": "logs", "uri": f"{tmp_path}/out/logs", "metadata": {}}]}},
    }
    inputs = {"name": "a", "command": ["sh", "-c", "echo hi; exit $CODE"], "workers": 2, "system": "local"}
    command = [sys.executable, "-m", "kfp.dsl.executor_main", "--function_to_execute", "train"]
    command += ["--component_module_path", components / "train/component.py", "--executor_input"]
    environment = {"PATH": "/usr/bin:/bin", "TFSTEPS_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    for code, expected in ((0, 0), (3, 10)):
        inputs_of_step = {"parameterValues": {**inputs, "env": {"CODE": str(code)}, "run_id": f"r{code}"}}
        argument = json.dumps({"inputs": inputs_of_step, "outputs": outputs})
        done = subprocess.run(
            [*command, argument], check=False, capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        assert done.returncode == expected, done.stdout + done.stderr
        assert "] hi\n" in done.stdout  # a worker that is slow is stopped when another has failed
        written = json.loads((tmp_path / "out/executor_output.json").read_text())["parameterValues"]
        assert (written["job"]["run"], written["fault"]) == (f"r{code}", "user" if code else "")


REFUSALS = {
    (): "OWNERS is not set: name members of the Kubeflow organization",
    ("--owners", "ada,not a login"): "OWNERS has 'not a login', which is not a GitHub login",
    ("--owners", "ada", "--base", "debian:12"): "BASE is 'debian:12'; that repository takes python:X.Y...",
}


@pytest.mark.parametrize("arguments", REFUSALS)
def test_refusals(tmp_path, arguments):
    done = official(tmp_path / "new", *arguments)
    assert (done.returncode, REFUSALS[arguments] in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "new").exists()
