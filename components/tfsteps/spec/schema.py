"""The JSON Schema of job files, for editors, generated from the types that the parser uses.

The schema does not cover the rules between fields, nor the range of an amount with a unit: the parser checks them.
"""

import inspect
import re
from typing import Any

import msgspec
from msgspec import inspect as mi

from tfsteps.spec.parse import Options
from tfsteps.spec.types import TrainingJob

_SECTION = re.compile(r"\n\nAttributes:\n((?:(?:    .*)?(?:\n|$))+)")
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_Node = dict[str, Any]
_DEFS = "#/$defs/"


def structs(*types: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """Return `types` and the types of their fields, each once, in the order of their first use."""
    result: dict[type[msgspec.Struct], None] = {}
    waiting: list[Any] = [mi.type_info(type_) for type_ in types]
    for info in waiting:  # grows on the way
        if isinstance(info, mi.StructType) and info.cls not in result:
            result[info.cls] = None
            waiting += [field.type for field in info.fields]
        parts = [getattr(info, name, None) for name in ("type", "item_type", "value_type")]
        waiting += [part for part in (*parts, *getattr(info, "types", ())) if isinstance(part, mi.Type)]
    return list(result)


def summary(of: type) -> str:
    """Return the docstring before the `Attributes` section, on one line; empty without a docstring."""
    return " ".join(_SECTION.sub("", _docstring(of)).split())


def attributes(of: type) -> dict[str, str]:
    """Return the description of each field, on one line, in the docstring's order; empty without that section."""
    section = _SECTION.search(_docstring(of))
    return {name: " ".join(text.split()) for name, text in _ENTRY.findall(section[1] if section else "")}


def _docstring(of: type) -> str:
    return inspect.cleandoc(of.__doc__ or "")


def json_schema(options: Options | None = None) -> _Node:
    """Return the schema, in JSON Schema 2020-12.

    Args:
        options: The job systems that `systems:` may name; None = any, with any options.
    """
    types: list[type[msgspec.Struct]] = [TrainingJob, *(type_ for type_ in (options or {}).values() if type_)]
    refs, defs = msgspec.json.schema_components(types, ref_template=_DEFS + "{name}")
    documented = {name: _as_written(node) for name, node in defs.items()}
    for type_ in structs(*types):
        _describe(documented[type_.__name__], type_)
    job = documented.pop(TrainingJob.__name__)
    if options is not None:
        job["properties"]["systems"] |= _systems(options, dict(zip(types, refs, strict=True)))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:tfsteps:job",
        **job,
        "$defs": documented,
    }


def _as_written(node: Any) -> Any:
    """Return a node for values as written in a file: amounts can be text, and a field is left out instead of null."""
    if isinstance(node, list | tuple):
        return [_as_written(item) for item in node if item != {"type": "null"}]
    if not isinstance(node, dict):
        return node
    read = {key: _as_written(value) for key, value in node.items() if (key, value) != ("default", None)}
    if "types" in read:
        read["type"] = read.pop("types")
    if pattern := read.pop("short_form", None):
        read = {"anyOf": [{"$ref": read.pop("$ref")}, {"type": "string", "pattern": pattern}], **read}
    if instead := read.pop("instead", None):
        read = {key: item for key, item in read.items() if key not in ("type", "minimum", "maximum")} | instead
    if len(read.get("anyOf", ())) == 1:
        read |= read.pop("anyOf")[0]
    return read


def _describe(node: _Node, type_: type[msgspec.Struct]) -> None:
    """Add the descriptions of the docstring to a struct's node, before the allowed values of each field."""
    node["description"] = summary(type_)
    meanings = attributes(type_)
    for name, field in node["properties"].items():
        allowed = field.get("description", "")
        field["description"] = f"{meanings[name]}\n\nAllowed: {allowed}." if allowed else meanings[name]


def _systems(options: Options, refs: dict[type[msgspec.Struct], _Node]) -> _Node:
    known = {name: dict(refs[type_]) if type_ else {"type": "object"} for name, type_ in options.items()}
    return {"properties": known, "additionalProperties": False}
