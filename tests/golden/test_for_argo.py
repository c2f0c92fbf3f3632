"""What Argo gets of the components is generated from them, and free of traps."""

import inspect
import pathlib
import re

import msgspec
import pytest
import yaml

import tfsteps
from tfsteps.engines.argo import interface
from tfsteps.engines.argo.lint import lint_messages
from tfsteps.engines.argo.step import argo_step, workflow_template

STEPS = pathlib.Path(tfsteps.__file__).parent / "steps"
COMPILED = sorted(STEPS.glob("*/component.yaml"))


def extract(file):
    """Return the interface of a compiled component; what is set on a KFP task has no place in it."""
    name = file.parent.name
    compiled = next(yaml.safe_load_all(file.read_text()))
    component = compiled["components"][f"comp-{name.replace('_', '-')}"]
    inputs = component.get("inputDefinitions", {}).get("parameters", {})
    outputs = component.get("outputDefinitions", {})
    header = [line.removeprefix("#") for line in file.read_text().splitlines() if line.startswith("#")]
    start = next(i for i, line in enumerate(header) if line.startswith(" Description: "))
    end = next(i for i, line in enumerate(header) if line in {" Inputs:", " Outputs:"})
    return interface.Interface(
        name=name,
        description=" ".join(" ".join(header[start:end]).removeprefix(" Description: ").split()),
        inputs=tuple(
            interface.Input(
                name=name,
                type=spec["parameterType"],
                description=" ".join(spec.get("description", "").split()),
                required=not spec.get("isOptional", False),
                default=spec.get("defaultValue"),
            )
            for name, spec in inputs.items()
            if spec["parameterType"] not in {"TASK_CONFIG", "TASK_FINAL_STATUS"}
        ),
        outputs=tuple(
            interface.Output(
                name=name,
                type=spec.get("parameterType") or spec["artifactType"]["schemaTitle"],
                description=" ".join(spec.get("description", "").split()),
            )
            for name, spec in [*outputs.get("parameters", {}).items(), *outputs.get("artifacts", {}).items()]
            if spec.get("artifactType", {}).get("schemaTitle") != "system.Markdown"  # no page of Argo shows it
        ),
    )


def test_interfaces(golden):
    interfaces = [msgspec.to_builtins(extract(file)) for file in COMPILED]
    golden(interface.FILE, msgspec.json.format(msgspec.json.encode(interfaces)).decode() + "\n")
    interface.interfaces.cache_clear()
    assert set(interface.interfaces()) == {file.parent.name for file in COMPILED}


ROOT = pathlib.Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests/argo-templates"
PAGE = ROOT / "docs/guides/argo.md"


@pytest.mark.parametrize("file", ["workflow-template.yaml", "cluster/cluster-workflow-template.yaml"])
def test_templates(file, golden):
    template = workflow_template(cluster=file.startswith("cluster"), service_account_name="argo-workflow")
    text = template.to_yaml()
    golden(MANIFESTS / file, f"# Generated from the components by `make golden`.\n{text}")
    assert lint_messages(text) == []


@pytest.mark.parametrize("name", [file.parent.name for file in COMPILED])
def test_a_step_takes_what_the_kubeflow_component_takes(name):
    from tests.golden.test_components import component  # noqa: PLC0415  imports kfp

    spec = component(STEPS / name).component_spec
    kubeflows = {"TaskConfig", "PipelineTaskFinalStatus"}
    theirs = {
        item: value
        for item, value in spec.inputs.items()
        if value.type not in kubeflows and not value.type.startswith("system.")
    }
    ours = inspect.signature(argo_step(name)).parameters
    assert {item: value.default for item, value in ours.items() if item not in {"task_name", "call"}} == {
        item: inspect.Parameter.empty if not value.optional else value.default for item, value in theirs.items()
    }
    shown = [output for output in spec.outputs.values() if not output.type.startswith("system.Markdown")]
    for item in [*theirs.values(), *shown]:
        assert " ".join(item.description.split()) in argo_step(name).__doc__


def page_code(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]


def test_the_workflow_on_the_page(capsys):
    exec(page_code("python"), {})
    assert lint_messages(capsys.readouterr().out) == []


def test_the_manifest_on_the_page():
    text = page_code("yaml")
    assert lint_messages(text) == []
    templates = yaml.safe_load((MANIFESTS / "workflow-template.yaml").read_text())["spec"]["templates"]
    inputs = {template["name"]: {one["name"] for one in template["inputs"]["parameters"]} for template in templates}
    for task in yaml.safe_load(text)["spec"]["templates"][0]["dag"]["tasks"]:
        arguments = {parameter["name"] for parameter in task["arguments"]["parameters"]}
        assert arguments <= inputs[task["templateRef"]["template"]]
