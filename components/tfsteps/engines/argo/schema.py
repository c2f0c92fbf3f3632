"""The fields of Argo's manifests and their types. Argo drops any other field without a message."""

import functools
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.spec.problems import Path, dotted, shown
from tfsteps.spec.spelling import nearest

FILE = pathlib.Path(__file__).with_name("fields.json")
"""Made from the JSON schemas of Argo Workflows 3.7.3 to 4.1.2 by tests/argo/fields.py, which describes its format."""

_PLAIN: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "scalar": (str, int, float, bool),
    "any": (object,),
}


@functools.cache
def _types() -> dict[str, dict[str, str]]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, dict[str, str]])


def kinds() -> list[str]:
    """Return the kinds of manifest in the table."""
    return [name for name, fields in _types().items() if "kind" in fields and "metadata!" in fields]


def violations(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each unknown field, missing field, and field of another type of a manifest."""
    yield from _object(manifest, _types()[manifest["kind"]], ())


def _value(value: Any, kind: str, path: Path) -> Iterator[str]:
    match kind[0], value:
        case _, None:
            return
        case "[", list():
            for i, item in enumerate(value):
                yield from _value(item, kind[1:-1], (*path, i))
        case "{", dict():
            for key, item in value.items():
                yield from _value(item, kind[1:-1], (*path, key))
        case _, dict() if kind in _types():
            yield from _object(value, _types()[kind], path)
        case _ if not _is_plain(value, kind):
            yield f"{dotted(path)}: {shown(value)} is not {_type_name(kind)}"


def _is_plain(value: Any, kind: str) -> bool:
    whole_or_not = kind in {"integer", "number"}
    return isinstance(value, _PLAIN.get(kind, ())) and not (isinstance(value, bool) and whole_or_not)


def _object(value: Mapping[str, Any], fields: Mapping[str, str], path: Path) -> Iterator[str]:
    for key, item in value.items():
        if kind := fields.get(key) or fields.get(f"{key}!"):
            yield from _value(item, kind, (*path, key))
        else:
            yield f"{dotted((*path, key))}: Argo has no such field{_suggestion(str(key), fields)}"
    for key in fields:
        if key.endswith("!") and value.get(key[:-1]) is None and path[-1:] != ("templateDefaults",):
            yield f"{dotted((*path, key[:-1]))}: it is missing"


def _suggestion(key: str, fields: Mapping[str, str]) -> str:
    guess = nearest(key, [field.rstrip("!") for field in fields])
    return f"; did you mean {guess}?" if guess else ""


def _type_name(kind: str) -> str:
    return {"[": "a list", "{": "a mapping"}.get(kind[0], f"of type {kind}" if kind in _PLAIN else "a mapping")
