"""Reads a `TrainingJob`, or all of its problems, from a text, a file or plain data; `to_plain` is the inverse."""

import contextlib
import copy
import functools
import os
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tfsteps.spec import rules
from tfsteps.spec.decode import Document, decode
from tfsteps.spec.overrides import override
from tfsteps.spec.problems import JOB_FILE, Path, Problem, SpecError
from tfsteps.spec.spelling import nearest
from tfsteps.spec.types import TrainingJob

T = TypeVar("T", bound=msgspec.Struct)

Options = Mapping[str, type[msgspec.Struct] | None]
"""The job systems that `systems:` may name, each with the type of its options; None = the options are not checked."""


def load(path: str | os.PathLike[str], options: Options | None = None, overrides: Sequence[str] = ()) -> TrainingJob:
    """Return the job in the YAML or JSON file at `path`, with fields replaced by `overrides`, as `PATH=VALUE`.

    Raises:
        SpecError: It contains all problems of the file.
        OSError: The file cannot be read.
    """
    from tfsteps.spec import yaml_text  # noqa: PLC0415  plain data needs no yaml

    source = os.fspath(path)
    try:
        with open(path, "rb") as file:  # noqa: PTH123  pathlib costs as much to import as the rest of this package
            raw = file.read(4 * yaml_text.MAX_BYTES)  # enough to detect a file that is too large
    except ValueError as error:  # its path has a NUL character
        raise OSError(str(error)) from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = Problem(path=(), wrong=f"is not UTF-8 (byte {error.start})", fix="Save the file as UTF-8")
        raise SpecError([problem], source) from error
    return parse(text, source, options, overrides)


def parse(text: str, source: str = "job", options: Options | None = None, overrides: Sequence[str] = ()) -> TrainingJob:
    """Return the job in a YAML or JSON text, with fields replaced; `source` is the text's name in messages.

    Raises:
        SpecError: It contains all problems of the text.
    """
    from tfsteps.spec import yaml_text  # noqa: PLC0415  plain data needs no yaml

    return _job(yaml_text.parse(text, source), options, overrides)


def from_plain(
    value: Any,
    source: str = "job",
    options: Options | None = None,
    overrides: Sequence[str] = (),
    origins: Mapping[Path, str] | None = None,
) -> TrainingJob:
    """Return the job in plain data, such as a component's inputs.

    Args:
        value: The plain data.
        source: Its name in messages.
        options: The job systems.
        overrides: Fields to replace, each `PATH=VALUE`.
        origins: Other names in messages, by the path of the value that came from there; None = there are none.

    Raises:
        SpecError: It contains all problems of the data.
    """
    document = Document(copy.deepcopy(value), source=source, origins=dict(origins or {}))  # it belongs to the caller
    return _job(document, options, overrides)


def options_of(job: TrainingJob, system: str, into: type[T]) -> T:
    """Return the options of one job system, with its defaults.

    Raises:
        SpecError: The options are wrong, and were not checked when the job was read.
    """
    document = Document({"systems": {system: job.systems.get(system, {})}}, source=job.name)
    decoded, problems = decode(document, into, ("systems", system))
    if problems:
        raise SpecError(problems, job.name)
    return decoded


def _job(document: Document, options: Options | None, overrides: Sequence[str]) -> TrainingJob:
    """Return the job in a document, with fields replaced. SpecError with all of its problems, each with its place."""
    for text in overrides:
        override(document, text)
    fields = document.value if isinstance(document.value, dict) else {}
    if {"apiVersion", "kind"} <= fields.keys():
        raise SpecError([JOB_FILE.manifest_problem(document.source)], document.source)
    if {"version", "spec"} <= fields.keys() and "roles" not in fields:
        problem = JOB_FILE.manifest_problem(document.source, "the task of another launcher")
        raise SpecError([problem], document.source)
    job, problems = decode(document, TrainingJob)
    problems = document.problems + problems
    unread = [*(problem.path for problem in problems), *(problem.meant for problem in problems if problem.meant)]
    problems += rules.check(job, unread)
    systems = fields.get("systems")
    for name, value in systems.items() if isinstance(systems, dict) else ():
        if options is None:
            break
        if name not in options:
            guess = nearest(str(name), options)
            fix, allowed = f"Write `{guess}`" if guess else "Remove it", ", ".join(options)
            problems.append(Problem(path=("systems", name), wrong="is not a job system", allowed=allowed, fix=fix))
        elif isinstance(value, dict) and (type_ := options[name]):
            problems += decode(document, type_, ("systems", name))[1]
    if not problems:
        return job
    placed = []
    for problem in problems:
        source = problem.source or document.origin(problem.path)
        line = None if source else problem.line or document.line(problem.path)
        placed.append(msgspec.structs.replace(problem, line=line, source=source))
    raise SpecError(sorted(placed, key=lambda p: (p.line or 0, document.position(p.path))), document.source)


def to_plain(value: Any) -> Any:
    """Return a job, or a part of it, as plain data: `memory: 4Gi`, `cpu: 500m`, `total: 7d`.

    Amounts are in the shortest notation that is exact, because a job does not keep how they were written: `1024Mi` is
    returned as `1Gi`. Options of a job system stay numbers.
    """
    return _noted(value, msgspec.to_builtins(value))


def _noted(value: Any, plain: Any) -> Any:
    """Return `plain`, which is `value` as plain data, with its amounts in short notations."""
    if isinstance(value, msgspec.Struct):
        fields = _fields(type(value))
        return {key: _field(value, fields.get(key), item) for key, item in plain.items()}
    if isinstance(value, dict) and isinstance(plain, dict) and len(value) == len(plain):
        return {key: _noted(part, item) for part, (key, item) in zip(value.values(), plain.items(), strict=True)}
    if isinstance(value, list | tuple) and isinstance(plain, list | tuple):
        return [_noted(part, item) for part, item in zip(value, plain, strict=True)]
    return plain


@functools.cache
def _fields(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


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
