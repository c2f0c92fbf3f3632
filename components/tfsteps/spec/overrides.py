"""Overrides of fields of a job, such as `roles.worker.replicas=4`, in plain data: before any rule is checked."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps.spec.decode import Document
from tfsteps.spec.problems import Path, Problem, SpecError, dotted, shown

_KEY = r"""[^.\[\]="']+|"[^"]*"|'[^']*'"""
_PATH = re.compile(rf"(?:{_KEY})(?:\.(?:{_KEY})|\[[0-9]{{1,9}}\])*")
_PART = re.compile(rf"\[([0-9]+)\]|\.?({_KEY})")
_EXAMPLE = "--set roles.worker.replicas=4"


class Override(msgspec.Struct, frozen=True):
    """One override.

    Attributes:
        path: The path of the field. A number is a key of a mapping, or a position in a list.
        text: The value as YAML; empty = empty text.
    """

    path: Path
    text: str

    @property
    def source(self) -> str:
        """Its name in messages, without the value, which may be a secret."""
        return f"--set {dotted(self.path)}"


def parse_override(text: str) -> Override:
    """Return the override in `PATH=VALUE`. PATH is dotted; VALUE is YAML, or empty for empty text.

    A key with a dot is quoted: `labels."example.com/team"=vision`.

    Raises:
        SpecError: The path cannot be read.
    """
    match = _PATH.match(text)
    if not (match and text[match.end() :].startswith("=")):
        path = match[0] if match else text.partition("=")[0]
        wrong = "is not a path and a value" if match and match.end() == len(text) else "has a path that cannot be read"
        raise SpecError(
            [Problem(path=(), value=shown(path), wrong=wrong, fix=f"Write PATH=VALUE, such as {_EXAMPLE}")], "--set"
        )
    where: Path = tuple(int(index) if index else key.strip("\"'") for index, key in _PART.findall(match[0]))
    return Override(where, text[match.end() + 1 :])


def override(document: Document, text: str) -> None:
    """Replace a field of `document` by the override `PATH=VALUE`.

    Mappings that the path needs and that are missing are added. A value replaces the whole field; null removes it,
    except from a list.

    Raises:
        SpecError: The override cannot be read, or its path leads into a value that has no fields.
    """
    from tfsteps.spec import yaml_text  # noqa: PLC0415  plain data needs no yaml

    change = parse_override(text)
    parent, path, first = _parent(document.value, change)
    new = yaml_text.parse_value(change.text, change.source, path)
    for old in [old for old in document.texts if old[: len(path)] == path]:
        del document.texts[old]
    if new.value is None and isinstance(parent, dict):
        parent.pop(path[-1], None)
    else:
        parent[path[-1]] = new.value
    document.problems[:] = [problem for problem in document.problems if problem.path[: len(path)] != path]
    document.problems += [msgspec.structs.replace(item, source=change.source, line=None) for item in new.problems]
    document.texts |= new.texts
    document.origins[first] = change.source


def _parent(value: Any, change: Override) -> tuple[Any, Path, Path]:
    """Return the collection that holds the field, the field's path, and the path of the first part that is new.

    In the paths, positions in lists are numbers.
    """
    path: list[Any] = []
    first: Path = ()
    for part in change.path:
        if path:
            child = value.get(path[-1]) if isinstance(value, dict) else value[path[-1]]
            if child is None:
                child = value[path[-1]] = {}
                first = first or tuple(path)
            elif isinstance(child, tuple):  # in the plain data of a recorded job
                child = value[path[-1]] = list(child)
            value = child
        path.append(_key(value, part, tuple(path), change))
    return value, tuple(path), first or tuple(path)


def _key(value: Any, part: str | int, path: Path, change: Override) -> Any:
    """Return `part` as a key of `value`. SpecError if `value` cannot have it."""
    match value:
        case dict():
            return str(part)
        case list():
            position = int(part) if re.fullmatch("[0-9]{1,9}", str(part)) else None
            if position is not None and position < len(value):
                return position
            wrong = f"is a list, and {part!r} is no position" if position is None else f"has no element {part}"
            allowed = f"a position from 0 to {len(value) - 1}" if value else "no position: the list is empty"
            raise _refused(change, path, wrong, f"Set the whole list: --set {dotted(path)}='[a, b]'", allowed)
        case _:
            what = "text" if isinstance(value, str) else shown(value)
            fix = f"Set {dotted(path)} itself" if path else "Start with a field of a job"
            raise _refused(change, path, f"is {what}, and has no field {str(part)!r}", fix)


def _refused(change: Override, path: Path, wrong: str, fix: str, allowed: str = "") -> SpecError:
    return SpecError([Problem(path=path, wrong=wrong, fix=fix, allowed=allowed)], change.source)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Path]:
    """Return the paths of the values that differ between two jobs as plain data; lists differ as a whole."""

    def walk(one: Any, other: Any, path: Path) -> list[Path]:
        if one == other:
            return []
        if not all(isinstance(side, Mapping | None) for side in (one, other)):
            return [path]
        left, right = one or {}, other or {}
        keys = {**left, **right}
        return [item for key in keys for item in walk(left.get(key), right.get(key), (*path, str(key)))] or [path]

    return walk(old, new, ())
