"""Readers of one text, number, quantity, flag or choice.

Each reader takes the value, its type, the type's `Meta`, and the value as its author wrote it (None for data that was
not read from a text). It returns the value to keep, or raises `RefusedError`.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import inspect as mi

from tfsteps.spec.spelling import nearest

_PLAIN_WORD = re.compile(r"[\w./:=@%+-]+")


class RefusedError(ValueError):
    """A value that is not allowed.

    Attributes:
        wrong: As in `Problem`.
        fix: As in `Problem`.
        allowed: As in `Problem`.
    """

    def __init__(self, wrong: str, fix: str, allowed: str = "") -> None:
        """Keep the three parts of the problem."""
        self.wrong, self.fix, self.allowed = wrong, fix, allowed
        super().__init__(wrong)


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


def text(value: Any, info: mi.StrType, meta: Mapping[str, Any], written: str | None) -> str:
    """Read text; for the type `Text`, a number or flag is kept as written."""
    allowed = meta.get("description", "text")
    if isinstance(value, bool | int | float):
        literal = written or flow(value)
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


def number(value: Any, info: mi.IntType, meta: Mapping[str, Any], _written: str | None) -> int:
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


def quantity(value: Any, info: mi.IntType | mi.FloatType, meta: Mapping[str, Any], _written: str | None) -> float:
    """Read a quantity: a number of the base unit, or text with a unit."""
    allowed, fix = meta["description"], such_as(meta, "Change it")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise RefusedError("is not a quantity", fix, allowed)
    if isinstance(value, str) and "parse" not in meta:  # a plain number, without units
        match = re.fullmatch(r"\s*(-?[0-9]{1,9}(\.[0-9]{1,9})?)\s*", value)
        raise RefusedError(
            "is text, and not a number", f"Write `{match[1]}`, without quotes" if match else fix, allowed
        )
    amount = _parsed(value, meta) if isinstance(value, str) else value
    if not _within(amount, info):
        raise RefusedError("is out of range", fix, allowed)
    if isinstance(info, mi.FloatType):
        return float(amount)
    if amount != int(amount):
        raise RefusedError("is not a whole number of bytes", fix, allowed)
    return int(amount)


def _parsed(value: str, meta: Mapping[str, Any]) -> float:
    try:
        amount: float = meta["parse"](value)
    except ValueError as error:
        suggestion = meta["suggest"](value)
        fix = f"Write `{suggestion}`" if suggestion else such_as(meta, "Change it")
        raise RefusedError(str(error), fix, meta["description"]) from error
    return amount


def flag(value: Any, _info: mi.BoolType, _meta: Mapping[str, Any], _written: str | None) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise RefusedError("is neither true nor false", "Write true or false, without quotes", "true, false")
    return value


def choice(value: Any, info: mi.LiteralType, _meta: Mapping[str, Any], _written: str | None) -> str | int:
    """Read one of a fixed set of words, and of numbers."""
    if type(value) in (str, int) and value in info.values:
        chosen: str | int = value
        return chosen
    words = [str(word) for word in info.values]
    guess = nearest(str(value), words) if isinstance(value, str) else None
    fix = f"Write `{guess}`" if guess else "Choose one of these"
    raise RefusedError("is not one of the choices", fix, ", ".join(words))


def _within(value: float, info: mi.IntType | mi.FloatType) -> bool:
    """Tell whether `value` is in the type's range; NaN is in none."""
    return (
        value == value  # noqa: PLR0124
        and (info.ge is None or value >= info.ge)
        and (info.gt is None or value > info.gt)
        and (info.le is None or value <= info.le)
        and (info.lt is None or value < info.lt)
    )


Reader = Callable[[Any, Any, Mapping[str, Any], str | None], Any]
READERS: Mapping[type[mi.Type], Reader] = {
    mi.StrType: text,
    mi.IntType: number,
    mi.FloatType: quantity,
    mi.BoolType: flag,
    mi.LiteralType: choice,
}
"""The reader of each kind of type. A type whose Meta has `parse` is read by `quantity`, whatever its kind."""
