"""The inputs of a pipeline of Kubeflow Pipelines, from text."""

import shlex
from collections.abc import Collection, Mapping
from typing import Any

from tfsteps import typed_json
from tfsteps.console.errors import CommandError
from tfsteps.engines.authoring import Compiled
from tfsteps.engines.submission import check_names
from tfsteps.json_errors import NOT_READABLE


def definitions(compiled: Compiled) -> Mapping[str, Any]:
    """Return the definitions of the inputs in a compiled pipeline, by name."""
    inputs: Mapping[str, Any] = compiled.documents[0].get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    return inputs


def typed(
    parameters: Mapping[str, str], inputs: Mapping[str, Mapping[str, Any]], known: Collection[str] = ()
) -> dict[str, Any]:
    """Return the inputs of a pipeline of Kubeflow Pipelines, converted to their types.

    Args:
        parameters: Inputs by name, as text.
        inputs: Their definitions in the compiled pipeline.
        known: Names of inputs that are set otherwise.

    Raises:
        CommandError: An input is unknown, missing, or not of its type.
    """
    needed = [
        name
        for name, definition in inputs.items()
        if not definition.get("isOptional") and "defaultValue" not in definition
    ]
    check_names(parameters, inputs, [name for name in needed if name not in known])
    return {name: decoded(name, text, inputs[name]["parameterType"]) for name, text in parameters.items()}


_TYPES: dict[str, Any] = {
    "NUMBER_INTEGER": int,
    "NUMBER_DOUBLE": float,
    "BOOLEAN": bool,
    "LIST": list[Any],
    "STRUCT": dict[str, Any],
}
_EXAMPLES = {
    "NUMBER_INTEGER": "3",
    "NUMBER_DOUBLE": "0.5",
    "BOOLEAN": "true",
    "LIST": '["a", "b"]',
    "STRUCT": '{"a": 1}',
}
_NAMES = {
    "NUMBER_INTEGER": "whole number",
    "NUMBER_DOUBLE": "number",
    "BOOLEAN": "true or false",
    "LIST": "list in JSON",
    "STRUCT": "mapping in JSON",
}


def decoded(name: str, text: str, kind: str) -> Any:
    """Return the value of `--param name=text` for an input of this type. CommandError if it is not of that."""
    if kind not in _TYPES:
        return text
    try:
        return typed_json.decode(text, _TYPES[kind])
    except NOT_READABLE as error:
        wrong = f"--param {name}: {text!r} is not {'' if kind == 'BOOLEAN' else 'a '}{_NAMES[kind]}"
        example = _EXAMPLES[kind]
        written = shlex.quote(f"{name}={example}")
        raise CommandError(f"{wrong}; write something like --param {written}") from error
