"""Loops over constants: their items, and a text with an item inserted."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.engines.argo.launchers import text
from tfsteps.engines.unclear import REFERENCE
from tfsteps.spec.problems import shown

_ITEM = re.compile(r"\{\{\s*item(?:\.([^\s{}]+))?\s*\}\}")

_Node = Mapping[str, Any]


def problem(call: _Node) -> str:
    """Return the problem of the list that a task or step loops over; empty = none, or the list is not known yet."""
    param = call.get("withParam")
    if param is None or REFERENCE in param or isinstance(_decoded(param), list):
        return ""
    return f"withParam: {shown(param)} is not a list as JSON; write one, such as '[1, 2]', or use withItems"


def items(call: _Node) -> list[Any]:
    """Return the constant items of a loop; empty = none are known, or there is no loop."""
    listed = call.get("withItems")
    if listed is None:
        listed = _decoded(call.get("withParam") or "")
    return [item for item in listed if REFERENCE not in text(item)] if isinstance(listed, list) else []


def missing(name: str, call: _Node) -> str:
    """Return why the variable `item.KEY` has no value in a loop over constants; empty = it has one, or may have one.

    Args:
        name: The variable.
        call: The task or step with the loop.
    """
    key = name.removeprefix("item.")
    for item in [0] if call.get("withSequence") is not None else items(call):
        if not isinstance(item, Mapping):
            return f"cannot be replaced: the items are not mappings, one is {shown(item)}; write {{{{item}}}}"
        if key not in item:
            known = ", ".join(map(str, item)) or "none"
            return f"cannot be replaced: an item has the keys {known}, and no {shown(key)}; correct one of the two"
    return ""


def rounds(call: _Node, arguments: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the distinct arguments of the iterations of a loop over constants; without a loop, the arguments."""
    seen: list[Mapping[str, str]] = []
    for item in items(call) or [None]:
        values = {name: value if item is None else _with(item, value) for name, value in arguments.items()}
        if values not in seen:
            seen.append(values)
            yield values


def _with(item: Any, value: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match[1] is None:
            return text(item)
        return text(item[match[1]]) if isinstance(item, Mapping) and match[1] in item else match[0]

    return _ITEM.sub(replaced, value)


def _decoded(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return None
