"""Converts plain data into frozen types, and collects all problems instead of stopping at the first.

msgspec's own decoder stops at the first error and cannot name a dict key, so this module walks the same type
information. A value that cannot be read gets its default, so that the rules between fields can still check the rest.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import inspect as mi

from tfsteps.spec import scalars
from tfsteps.spec.document import Document
from tfsteps.spec.problems import Path, Problem, shown
from tfsteps.spec.scalars import RefusedError, such_as
from tfsteps.spec.short_forms import SHORT_FORMS
from tfsteps.spec.spelling import advice, pair_names

T = TypeVar("T")
_Reader = Callable[[Any, Any, Path, Mapping[str, Any]], Any]
_OF_ANOTHER_TYPE = {"is not text", "is not a list", "is not a mapping"}
_UNREADABLE: Any = object()
_info = functools.cache(mi.type_info)


def decode(document: Document, into: type[T], at: Path = ()) -> tuple[T, list[Problem]]:
    """Return the part of `document` at path `at` as `into`, and its problems.

    The result is valid only if there are no problems: a value that could not be read has its default, or is blank.
    """
    value = document.value
    for part in at:
        value = value[part]
    info = _info(into)  # type: ignore[arg-type]  # every type is hashable
    decoder = _Decoder(document.texts)
    result = decoder.read(value, info, at)
    return (_blank(info) if result is _UNREADABLE else result), decoder.problems


class _Hidden:
    """Stands for a text that may be a secret at a wrong place; messages do not show it."""

    def __str__(self) -> str:
        return "a text"


class _Decoder:
    """Reads a value by its type. Each reader returns the value, or records problems and returns _UNREADABLE."""

    def __init__(self, texts: Mapping[Path, str]) -> None:
        self.texts = texts
        self.problems: list[Problem] = []
        self._collections: Mapping[type[mi.Type], _Reader] = {
            mi.StructType: self._struct,
            mi.DictType: self._dict,
            mi.VarTupleType: self._tuple,
            mi.UnionType: self._union,
        }

    def read(self, value: Any, info: mi.Type, path: Path) -> Any:
        info, meta = _bare(info)
        if isinstance(info, mi.AnyType):
            return value
        try:
            if collection := self._collections.get(type(info)):
                return collection(value, info, path, meta)
            reader: scalars.Reader = scalars.quantity if "parse" in meta else scalars.READERS[type(info)]
            return reader(value, info, meta, self.texts.get(path))
        except RefusedError as error:
            self._note(path, _Hidden() if meta.get("secret") and isinstance(value, str) else value, error)
            return _UNREADABLE

    def _note(self, path: Path, value: Any, error: RefusedError) -> None:
        written = self.texts.get(path)
        text = written if written and isinstance(value, bool | int | float) else shown(value)
        wrong = error.wrong
        if value is None:
            text, wrong = "", "has no value"
        elif wrong in _OF_ANOTHER_TYPE:
            text, wrong = "", f"expected {wrong.removeprefix('is not ')}, got {text}"
        self.problems.append(Problem(path=path, value=text, wrong=wrong, fix=error.fix, allowed=error.allowed))

    def _struct(self, value: Any, info: mi.StructType, path: Path, meta: Mapping[str, Any]) -> Any:
        fields = {field.encode_name: field for field in info.fields}
        if expand := SHORT_FORMS.get(info.cls):
            written = value
            value, refused = expand(written)
            for name, error in refused.items():
                self._note((*path, name), written[name], error)
        if not isinstance(value, dict):
            names = ", ".join(list(fields)[:4]) + (", …" if len(fields) > 4 else "")
            fix = such_as(meta, "Write `key: value` lines below it, or {} for the defaults")
            raise RefusedError("is not a mapping", fix, f"a mapping of {names}")
        intended = {self._unknown(key, fields, path) for key in value if key not in fields}
        read: dict[str, Any] = {}
        for name, field in fields.items():
            part = _UNREADABLE
            if name in value:
                part = self.read(value[name], field.type, (*path, name))
            elif field.required and name not in intended:
                self._missing(field, (*path, name))
            if part is not _UNREADABLE:
                read[field.name] = part
            elif field.required:
                read[field.name] = _blank(field.type)
        return info.cls(**read)

    def _unknown(self, key: Any, fields: Mapping[str, mi.Field], path: Path) -> str | None:
        """Record an unknown field; return the field that was probably intended, or None."""
        fix, guess = advice(str(key), fields)
        allowed = ", ".join(fields) if fix == "Remove it" else ""
        meant = (*path, guess) if guess else ()
        self.problems.append(
            Problem(path=(*path, key), wrong="is not a known field", fix=fix, allowed=allowed, meant=meant)
        )
        return guess

    def _missing(self, field: mi.Field, path: Path) -> None:
        _, meta = _bare(field.type)
        example = f", such as `{field.encode_name}: {scalars.flow(meta['examples'][0])}`" if "examples" in meta else ""
        allowed = meta.get("description", "")
        self.problems.append(Problem(path=path, wrong="is missing", allowed=allowed, fix=f"Add it{example}"))

    def _dict(self, value: Any, info: mi.DictType, path: Path, meta: Mapping[str, Any]) -> Any:
        if not isinstance(value, dict):
            names = ", ".join(f"{name}: …" for name in pair_names(value)[:4])
            fix = f"Write {{{names}}}" if names else such_as(meta, "Write `name: value` lines below it")
            raise RefusedError("is not a mapping", fix)
        read = {}
        for key, item in value.items():
            good_key = self.read(key, info.key_type, (*path, key))
            good_item = self.read(item, info.value_type, (*path, key))
            if good_key is not _UNREADABLE and good_item is not _UNREADABLE:
                read[key] = good_item
        return read

    def _tuple(self, value: Any, info: mi.VarTupleType, path: Path, meta: Mapping[str, Any]) -> Any:
        item_type, _ = _bare(info.item_type)
        if not isinstance(value, list | tuple):
            is_text = isinstance(item_type, mi.StrType) and isinstance(value, str | int | float)
            words = scalars.words(scalars.flow(value)) if is_text else []
            fix = "Write a list: [{}]".format(", ".join(words)) if words else such_as(meta, "Write a list: [a, b]")
            raise RefusedError("is not a list", fix)
        read = [self.read(item, info.item_type, (*path, i)) for i, item in enumerate(value)]
        return tuple(_blank(item_type) if item is _UNREADABLE else item for item in read)

    def _union(self, value: Any, info: mi.UnionType, path: Path, _meta: Mapping[str, Any]) -> Any:
        """Read a value of a union: a mapping as the mapping type, any other value as the other type."""
        choices = [choice for choice in info.types if not isinstance(choice, mi.NoneType)]
        mappings = [choice for choice in choices if isinstance(_bare(choice)[0], mi.StructType | mi.DictType)]
        if value is None and len(choices) < len(info.types):
            if self.texts.get(path) == "":  # `worker:` without a value: the author probably forgot it
                fix = "Write {} for the defaults, or remove the line" if mappings else "Write a value, or remove it"
                raise RefusedError("has no value", fix)
            return None
        others = [choice for choice in choices if choice not in mappings]
        chosen = mappings if mappings and (isinstance(value, dict) or not others) else others
        return self.read(value, chosen[0], path)


def _bare(info: mi.Type) -> tuple[mi.Type, Mapping[str, Any]]:
    """Return a type without its `Meta`, and the metadata for the parser."""
    if isinstance(info, mi.Metadata):
        return info.type, {**(info.extra_json_schema or {}), **(info.extra or {})}
    return info, {}


def _blank(info: mi.Type) -> Any:
    """Return a placeholder for a required value that cannot be read, so that the rest can be checked."""
    match _bare(info)[0]:
        case mi.StructType() as struct:
            return struct.cls(**{field.name: _blank(field.type) for field in struct.fields if field.required})
        case mi.StrType():
            return ""
        case mi.IntType() | mi.FloatType():
            return 0
        case _:
            return None
