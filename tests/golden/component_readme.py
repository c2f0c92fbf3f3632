"""A component's README.md: its description, inputs and outputs, as kfp understood them."""

import json

TITLES = {
    "String": "str",
    "Integer": "int",
    "Double": "float",
    "Float": "float",
    "Boolean": "bool",
    "Dict": "dict",
    "List": "list",
}


def page(component, source):
    """Return the page of a component that kfp has made, and that `source` defines."""
    spec = component.component_spec
    inputs = [
        [f"`{name}`", title(each.type), default(each), flat(each.description)] for name, each in spec.inputs.items()
    ]
    outputs = [[f"`{name}`", title(each.type), flat(each.description)] for name, each in spec.outputs.items()]
    return "\n".join(
        [
            f"# {component.name}",
            f"<!-- Generated from {source} by `make golden`. -->",
            spec.description,
            "",
            "## Inputs",
            *table(["name", "type", "default", "meaning"], inputs),
            "",
            "## Outputs",
            *table(["name", "type", "meaning"], outputs),
            "",
        ]
    )


def table(header, rows):
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]


def title(kind):
    return TITLES.get(kind, kind.removeprefix("system.").partition("@")[0])


def default(given):
    if not given.optional:
        return "required"
    return "empty" if given.default in (None, "") else f"`{json.dumps(given.default)}`"


def flat(text):
    assert text, "every input and output is described"
    return " ".join(text.split()).replace("|", "\\|")
