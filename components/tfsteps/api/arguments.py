"""Checks the arguments of the Python functions by their annotations: a wrong one is an error with its name."""

import functools
import inspect
import os
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

from tfsteps.console.errors import CommandError

P = ParamSpec("P")
R = TypeVar("R")

_NAMES = {
    str: "text",
    int: "a whole number",
    types.NoneType: "None",
    os.PathLike: "a path",
    Sequence: "a list of texts",
    Mapping: "a mapping of texts",
}
_UNCHECKED = (bool, Callable)  # any value is true or false; a function is called later, and its errors are caught


def checked(*but: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: the function raises CommandError for an argument that is not of its annotated type.

    Args:
        *but: Parameters that the function checks itself, with more advice.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                parameter = signature.parameters[name]
                values = value if parameter.kind is parameter.VAR_POSITIONAL else [value]
                for item in values if name not in but else ():
                    _check(name, item, parameter.annotation)
            return function(*args, **kwargs)

        return call

    return decorate


def _check(name: str, value: Any, annotation: Any) -> None:
    options = get_args(annotation) if isinstance(annotation, types.UnionType) else [annotation]
    if any(_fits(value, option) for option in options):
        return
    names = [_NAMES.get(kind, kind.__name__) for kind in (get_origin(option) or option for option in options)]
    utf8 = " of UTF-8 characters" if isinstance(value, str) and str in options else ""
    raise CommandError(f"{name} is {value!r:.80}; give {' or '.join(names)}{utf8}")


def _fits(value: Any, option: Any) -> bool:
    """Return whether a value is of a type, or can be used as one: a set as a list, a number of NumPy as a number.

    Text has no surrogates. Values of a mapping may be numbers, as in job files.
    """
    match get_origin(option) or option:
        case kind if kind in _UNCHECKED:
            return True
        case kind if kind is str:
            return _is_text(value)
        case kind if kind is int:
            return hasattr(type(value), "__index__")
        case kind if kind is Sequence:
            return isinstance(value, Collection) and not isinstance(value, str | bytes) and all(map(_is_text, value))
        case kind if kind is Mapping:
            return isinstance(value, Mapping) and all(
                _is_text(key) and (_is_text(item) or isinstance(item, int | float)) for key, item in value.items()
            )
        case kind:
            return isinstance(value, kind)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)
