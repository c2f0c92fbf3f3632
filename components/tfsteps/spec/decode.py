"""Converts plain data into frozen types, and collects all problems instead of stopping at the first.

msgspec's own decoder stops at the first error and cannot name a dict key, so this module walks the same type
information. A value that cannot be read gets its default, so that the rules between fields can still check the rest.
"""

import functools
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect as mi

from tfsteps.spec.problems import Path, Problem, RefusedError, shown
from tfsteps.spec.short_forms import SHORT_FORMS
from tfsteps.spec.spelling import advice, nearest, pair_names

T = TypeVar("T")
_OF_ANOTHER_TYPE = {"is not text", "is not a list", "is not a mapping"}
_UNREADABLE: Any = object()
_PLAIN_WORD = re.compile(r"[\w./:=@%+-]+")
_info = functools.cache(mi.type_info)


class Document(msgspec.Struct):
    """Plain data with, for each path, its line and the text of its scalar as written.

    Attributes:
        value: dict, list, str, int, float, bool or None.
        lines: Line numbers, from 1; empty for data that was not read from a text.
        texts: The scalars as written: `1e3` for 1000.0.
        problems: Problems of the text: duplicate keys, unknown tags.
        source: Its name in messages.
        origins: Other names in messages, by the path of the value that came from there: `--set env.LR`.
    """

    value: Any
    lines: dict[Path, int] = {}
    texts: dict[Path, str] = {}
    problems: list[Problem] = []
    source: str = "job"
    origins: dict[Path, str] = {}

    def line(self, path: Path) -> int | None:
        """Return the line of `path`, or of its nearest parent that has one; None if it comes from elsewhere."""
        return None if self.origin(path) else self.lines.get(self._standing(path))

    def origin(self, path: Path) -> str:
        """Return the name of what has set `path`; empty = the text."""
        parents = (path[:length] for length in range(len(path), 0, -1))
        return next((self.origins[parent] for parent in parents if parent in self.origins), "")

    def position(self, path: Path) -> int:
        """Return a number by which paths sort in the order of the text; always 0 without a text."""
        standing = self._standing(path)
        return list(self.lines).index(standing) if standing in self.lines else 0

    def _standing(self, path: Path) -> Path:
        while path and path not in self.lines:
            path = path[:-1]
        return path


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


class _Decoder(msgspec.Struct):
    """Reads a value by its type. Each reader returns the value, or records problems and returns _UNREADABLE."""

    texts: Mapping[Path, str]
    problems: list[Problem] = []

    def read(self, value: Any, info: mi.Type, path: Path) -> Any:
        info, meta = _bare(info)
        try:
            match info:
                case mi.AnyType():
                    return value
                case mi.StructType():
                    return self._struct(value, info, path, meta)
                case mi.DictType():
                    return self._dict(value, info, path, meta)
                case mi.VarTupleType():
                    return self._tuple(value, info, path, meta)
                case mi.UnionType():
                    return self._union(value, info, path)
                case _:
                    reader: _Reader = _quantity if "parse" in meta else _READERS[type(info)]
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
        example = f", such as `{field.encode_name}: {flow(meta['examples'][0])}`" if "examples" in meta else ""
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
            parts = words(flow(value)) if is_text else []
            fix = "Write a list: [{}]".format(", ".join(parts)) if parts else such_as(meta, "Write a list: [a, b]")
            raise RefusedError("is not a list", fix)
        read = [self.read(item, info.item_type, (*path, i)) for i, item in enumerate(value)]
        return tuple(_blank(item_type) if item is _UNREADABLE else item for item in read)

    def _union(self, value: Any, info: mi.UnionType, path: Path) -> Any:
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


# --- readers of one text, number, quantity, flag or choice: of its type, the type's `Meta`, and the value as its author
# wrote it (None for data that was not read from a text)


def _text(value: Any, info: mi.StrType, meta: Mapping[str, Any], written: str | None) -> str:
    """Read text; for the type `Text`, a number or flag is kept as written."""
    allowed = meta.get("description", "text")
    if isinstance(value, bool | int | float):
        try:
            literal = written or flow(value)
        except ValueError as error:  # it is no literal: YAML has it as it is written
            raise RefusedError("has more digits than Python writes", "Write it as text", allowed) from error
        if not meta.get("text"):
            fits = not info.pattern or re.fullmatch(info.pattern, literal)
            quoted = f'Put it in quotes: "{literal}"'
            raise RefusedError("is not text", quoted if fits else such_as(meta, "Write text"), allowed)
        value = literal
    if not isinstance(value, str):
        otherwise = 'Write "" for empty text' if value is None and meta.get("text") else "Write text"
        raise RefusedError("is not text", such_as(meta, otherwise), allowed)
    if "\0" in value:
        raise RefusedError("contains a NUL character", "Remove it", allowed)
    if any("\ud800" <= character <= "\udfff" for character in value):  # what Python makes of an argument's other bytes
        raise RefusedError("has bytes that are not UTF-8", "Rename what it names, or set LC_ALL=C.UTF-8", allowed)
    if info.pattern and not re.fullmatch(info.pattern, value):
        suggestion = meta["suggest"](value) if "suggest" in meta else None
        fix = f"Write `{suggestion}`" if suggestion else such_as(meta, "Change it")
        raise RefusedError("is not allowed here" if value else "is empty", fix, allowed)
    return value


def _number(value: Any, info: mi.IntType, meta: Mapping[str, Any], _written: str | None) -> int:
    """Read a whole number."""
    allowed = meta.get("description", "a whole number")
    if isinstance(value, bool) or not isinstance(value, int):
        match = re.fullmatch(r"\s*(-?[0-9]{1,9})(\.0*)?\s*", str(value))
        fix = f"Write `{int(match[1])}`" if match else such_as(meta, "Write a number without quotes")
        quoted = match is not None and isinstance(value, str)
        wrong = "is text, because of its quotes, and not a whole number" if quoted else "is not a whole number"
        raise RefusedError(wrong, fix, allowed)
    if not _within(value, info):
        raise RefusedError("is out of range", "Choose a value in that range", allowed)
    return value


def _is_quantity(text: str, info: mi.IntType | mi.FloatType, meta: Mapping[str, Any]) -> bool:
    try:
        return _within(meta["parse"](text), info)
    except ValueError:
        return False


def _quantity(value: Any, info: mi.IntType | mi.FloatType, meta: Mapping[str, Any], _written: str | None) -> float:
    """Read a quantity: a number of the base unit, or text with a unit."""
    allowed, fix = meta["description"], such_as(meta, "Change it")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise RefusedError("is not a quantity", fix, allowed)
    if isinstance(value, str) and "parse" not in meta:  # a plain number, without units
        match = re.fullmatch(r"\s*(-?[0-9]{1,9}(\.[0-9]{1,9})?)\s*", value)
        raise RefusedError(
            "is text, and not a number", f"Write `{match[1]}`, without quotes" if match else fix, allowed
        )
    try:
        amount: float = meta["parse"](value) if isinstance(value, str) else value
    except ValueError as error:
        suggestion = meta["suggest"](value)
        if suggestion and _is_quantity(suggestion, info, meta):
            fix = f"Write `{suggestion}`"
        raise RefusedError(str(error), fix, allowed) from error
    if not _within(amount, info):
        raise RefusedError("is out of range", fix, allowed)
    if isinstance(info, mi.FloatType):
        return float(amount)
    if amount != int(amount):
        raise RefusedError("is not a whole number of bytes", fix, allowed)
    return int(amount)


def _flag(value: Any, _info: mi.BoolType, _meta: Mapping[str, Any], _written: str | None) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise RefusedError("is neither true nor false", "Write true or false, without quotes", "true, false")
    return value


def _choice(value: Any, info: mi.LiteralType, _meta: Mapping[str, Any], _written: str | None) -> str | int:
    """Read one of a fixed set of words, and of numbers."""
    if type(value) in (str, int) and value in info.values:
        chosen: str | int = value
        return chosen
    choices = [str(choice) for choice in info.values]
    guess = nearest(str(value), choices) if isinstance(value, str) else None
    fix = f"Write `{guess}`" if guess else "Choose one of these"
    raise RefusedError("is not one of the choices", fix, ", ".join(choices))


def _within(value: float, info: mi.IntType | mi.FloatType) -> bool:
    """Tell whether `value` is in the type's range; NaN is in none."""
    return (
        value == value  # noqa: PLR0124
        and (info.ge is None or value >= info.ge)
        and (info.gt is None or value > info.gt)
        and (info.le is None or value <= info.le)
        and (info.lt is None or value < info.lt)
    )


_Reader = Callable[[Any, Any, Mapping[str, Any], str | None], Any]
_READERS: Mapping[type[mi.Type], _Reader] = {
    mi.StrType: _text,
    mi.IntType: _number,
    mi.FloatType: _quantity,
    mi.BoolType: _flag,
    mi.LiteralType: _choice,
}
"""The reader of each kind of type. A type whose Meta has `parse` is read by `_quantity`, whatever its kind."""


# --- values in the syntax of a job file


def such_as(meta: Mapping[str, Any], otherwise: str) -> str:
    """Return advice with the type's first example, or `otherwise` if it has none."""
    return f"Write something like {flow(meta['examples'][0])}" if meta.get("examples") else otherwise


def flow(value: Any) -> str:
    """Return `value` on one line, in the syntax of a job file: `{pvc: data, mount: /data}`."""
    match value:
        case dict():
            return "{{{}}}".format(", ".join(f"{key}: {flow(item)}" for key, item in value.items()))
        case list():
            return "[{}]".format(", ".join(map(flow, value)))
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def words(line: str) -> list[str]:
    """Return the words of a command line as a shell splits it, each in the syntax of a job file."""
    try:
        parts = shlex.split(line)
    except ValueError:  # a quote without its end
        parts = line.split()
    return [word if _PLAIN_WORD.fullmatch(word) else msgspec.json.encode(word).decode() for word in parts]
