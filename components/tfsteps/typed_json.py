"""JSON as values of a type, in any thread. Imports nothing of tfsteps.

msgspec builds what it knows of a type when the type is first used, and another thread may use that half-built: the
process crashes (msgspec 0.22, observed: 6 of 30 processes in which six threads began with the same type). So a type is
built here, by one thread, before it is used.
"""

import threading
from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")

_built: set[Any] = set()
_lock = threading.RLock()  # a signal handler may interrupt its own thread


def build(shape: _T) -> _T:
    """Return a type after it has been built, with all that it contains. Call it at import for one of a signal handler.

    Args:
        shape: A type as msgspec takes it: a class, a union, a list of a class.
    """
    if shape not in _built:
        with _lock:
            msgspec.json.Decoder(shape)
            _built.add(shape)
    return shape


@overload
def decode(content: bytes | str | msgspec.Raw, shape: type[_T]) -> _T: ...
@overload
def decode(content: bytes | str | msgspec.Raw, shape: Any) -> Any: ...
def decode(content: bytes | str | msgspec.Raw, shape: Any) -> Any:
    """Return the value of a type that a JSON text is. One of NOT_READABLE if it is none."""
    return msgspec.json.decode(content, type=build(shape))


@overload
def convert(value: object, shape: type[_T]) -> _T: ...
@overload
def convert(value: object, shape: Any) -> Any: ...
def convert(value: object, shape: Any) -> Any:
    """Return the value of a type that decoded JSON is. msgspec.ValidationError if it is none."""
    return msgspec.convert(value, type=build(shape))
