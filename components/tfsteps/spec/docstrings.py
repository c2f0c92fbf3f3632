"""The types of a job file, and their docstrings: a summary, and the description of each field in `Attributes`."""

import inspect
import re
from typing import Any

import msgspec
from msgspec import inspect as mi

_SECTION = re.compile(r"\n\nAttributes:\n((?:(?:    .*)?(?:\n|$))+)")
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


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
