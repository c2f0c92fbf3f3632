"""A job as plain data whose amounts are in the short notations of job files: the inverse of parsing."""

import contextlib
import typing
from typing import Any

import msgspec


def to_plain(value: Any) -> Any:
    """Return a job, or a part of it, as plain data: `memory: 4Gi`, `cpu: 500m`, `total: 7d`.

    Amounts are in the shortest notation that is exact, because a job does not keep how they were written: `1024Mi` is
    returned as `1Gi`. Options of a job system stay numbers.
    """
    return _noted(value, msgspec.to_builtins(value))


def _noted(value: Any, plain: Any) -> Any:
    """Return `plain`, which is `value` as plain data, with its amounts in short notations."""
    if isinstance(value, msgspec.Struct):
        fields = {field.encode_name: field for field in msgspec.structs.fields(value)}
        return {key: _field(value, fields.get(key), item) for key, item in plain.items()}
    if isinstance(value, dict) and isinstance(plain, dict) and len(value) == len(plain):
        return {key: _noted(part, item) for part, (key, item) in zip(value.values(), plain.items(), strict=True)}
    if isinstance(value, list | tuple) and isinstance(plain, list | tuple):
        return [_noted(part, item) for part, item in zip(value, plain, strict=True)]
    return plain


def _field(struct: msgspec.Struct, field: msgspec.structs.FieldInfo | None, plain: Any) -> Any:
    if field is None or plain is None:
        return plain
    metas = [meta for part in (field.type, *typing.get_args(field.type)) for meta in getattr(part, "__metadata__", ())]
    extras = [meta.extra or {} for meta in metas if isinstance(meta, msgspec.Meta)]
    if extra := next((extra for extra in extras if "write" in extra), None):  # it is an amount
        written: int | str = extra["write"](plain)
        with contextlib.suppress(ValueError):  # `1e-05m`: no short notation is exact
            return written if extra["parse"](str(written)) == plain else plain
        return plain
    return _noted(getattr(struct, field.name), plain)
