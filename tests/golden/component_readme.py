"""A component's README.md, and the page of all, docs/reference/components.md: what kfp understood of them."""

import json

from tests.support.markdown import entry

TITLES = {
    "String": "str",
    "Integer": "int",
    "Double": "float",
    "Float": "float",
    "Boolean": "bool",
    "Dict": "dict",
    "List": "list",
}


INTRO = """# Components

<!-- Generated from the components by `make golden`. -->

`from tfsteps.kfp import NAME` is the component for Kubeflow Pipelines, `from tfsteps.argo import NAME` the step for
Argo Workflows, with the same inputs and outputs (`train_and_finalize` is for Kubeflow only). `spec` takes a whole
[job](job.md). For how to use them, see [Kubeflow Pipelines](../guides/kubeflow.md) and
[Argo Workflows](../guides/argo.md)."""


def reference(components):
    """Return the page of all components, given by name."""
    return "\n\n".join([INTRO, *(f"## {name}\n\n{body(component, '###')}" for name, component in components.items())])


def page(component, source):
    """Return the page of a component that kfp has made, and that `source` defines."""
    return f"# {component.name}\n<!-- Generated from {source} by `make golden`. -->\n{body(component, '##')}"


def body(component, level):
    """Return a component's description its inputs and its outputs, under headings of a level."""
    spec = component.component_spec
    inputs = [described(name, value, default(value)) for name, value in spec.inputs.items()]
    outputs = [described(name, value) for name, value in spec.outputs.items()]
    parts = [
        spec.description,
        f"{level} Inputs\nAn input that is left out is empty, unless its entry names a default.",
        "\n".join(inputs),
        "\n".join([f"{level} Outputs", *outputs]),
    ]
    return "\n\n".join(parts) + "\n"


def described(name, value, *facts):
    """Return the entry of an input or output."""
    assert value.description, "every input and output is described"
    return entry(f"**`{name}`**", value.description, [title(value.type), *facts])


def title(kind):
    return TITLES.get(kind, kind.removeprefix("system.").partition("@")[0])


def default(value):
    if not value.optional:
        return "required"
    return "" if value.default in (None, "") else f"default `{json.dumps(value.default)}`"
