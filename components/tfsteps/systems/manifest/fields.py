"""A manifest whose fields are taken one by one: what is left at the end has no counterpart, and is reported."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from tfsteps.spec import Path, dotted
from tfsteps.spec.problems import shown

T = TypeVar("T")
_WORDS: Mapping[type, str] = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    int: "a whole number",
    bool: "true or false",
}


class NotUnderstoodError(ValueError):
    """A text that is not a job, or not one that can be imported; the message is one sentence for users."""


class Fields:
    """The fields of a mapping of somebody else's, which nothing has checked."""

    def __init__(self, value: Mapping[str, Any], path: Path = ()) -> None:
        """Copy the fields that have a value; `path` is the mapping's own, for messages."""
        self._value = _without_null(value)
        self._path = path

    def take(self, kind: type[T], *path: str) -> T | None:
        """Return the field at `path`, and remove it; None = it is missing.

        Raises:
            NotUnderstoodError: It is not of this kind, or a parent is no mapping.
        """
        *parents, last = path
        inside = self._value
        for depth, name in enumerate(parents, 1):
            inside = inside.get(name, {})
            if not isinstance(inside, dict):
                raise self._wrong(path[:depth], inside, dict)
        value = inside.pop(last, None)
        if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is int)):
            raise self._wrong(path, value, kind)
        return value

    def count(self, *path: str) -> int | None:
        """Return the whole number at `path` as `take` does. NotUnderstoodError if it is negative, too."""
        number = self.take(int, *path)
        if number is not None and number < 0:
            raise NotUnderstoodError(f"{self.where(*path)} is {number}, expected a whole number from 0 up; correct it")
        return number

    def inside(self, *path: str) -> "Fields":
        """Return the mapping at `path`, whose fields are still this one's; empty if it is missing."""
        fields = Fields({}, (*self._path, *path))
        value = self.take(dict, *path)
        if value is not None:
            self._put(path, value)
            fields._value = value  # shared, so that taking there is taking here
        return fields

    def mappings(self, *path: str) -> "list[Fields]":
        """Return the mappings of the list at `path`, whose fields are still this one's; empty if it is missing."""
        value = self.take(list, *path) or []
        if value:
            self._put(path, value)
        result = []
        for i, item in enumerate(value):
            if not isinstance(item, dict):
                raise self._wrong((*path, i), item, dict)
            fields = Fields({}, (*self._path, *path, i))
            fields._value = item
            result.append(fields)
        return result

    @property
    def has_name(self) -> bool:
        """Whether `name` is there, and text."""
        return isinstance(self._value.get("name"), str)

    def named(self, *path: str) -> "list[Fields]":
        """Return the same as `mappings`. NotUnderstoodError if one has no name that is text."""
        every = self.mappings(*path)
        for fields in every:
            if not fields.has_name:
                raise NotUnderstoodError(f"{fields.where('name')} is missing, or no text")
        return every

    def names(self, *path: str) -> list[str]:
        """Return the names in the mapping at `path`; empty if it is missing."""
        return [str(name) for name in self.inside(*path)._value]  # noqa: SLF001

    def left(self) -> Iterator[tuple[Path, Any]]:
        """Yield the fields that nobody took, with their values; empty mappings and lists have nothing to take."""
        yield from _leaves(self._path, self._value)

    def where(self, *path: str) -> str:
        """Return the name of a field in messages: `spec.replicaSpecs[1].template`."""
        return dotted((*self._path, *path))

    def _put(self, path: tuple[str, ...], value: Any) -> None:
        inside = self._value
        for name in path[:-1]:
            inside = inside[name]
        inside[path[-1]] = value

    def _wrong(self, path: Path, value: object, kind: type) -> NotUnderstoodError:
        return NotUnderstoodError(f"{dotted((*self._path, *path))} is {shown(value)}, expected {_WORDS[kind]}")


def _without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_null(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    return copy.copy(value)


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves((*path, key), item)
    elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _leaves((*path, i), item)
    else:
        yield path, value
