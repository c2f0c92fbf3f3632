"""Reads a `TrainingJob`, or all of its problems, from a text, a file or plain data."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tfsteps.spec import rules
from tfsteps.spec.decode import decode
from tfsteps.spec.document import Document
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
    with open(path, "rb") as file:  # noqa: PTH123  pathlib costs as much to import as the rest of this package
        raw = file.read(4 * yaml_text.MAX_BYTES)  # enough to detect a file that is too large
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

    return _job(override(yaml_text.parse(text, source), overrides), options)


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
    document = Document(value, source=source, origins=dict(origins or {}))
    return _job(override(document, overrides), options)


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


def _job(document: Document, options: Options | None) -> TrainingJob:
    fields = document.value.keys() if isinstance(document.value, dict) else set()
    if {"apiVersion", "kind"} <= fields:
        raise SpecError([JOB_FILE.manifest_problem(document.source)], document.source)
    if {"version", "spec"} <= fields and "roles" not in fields:
        problem = JOB_FILE.manifest_problem(document.source, "the task of another launcher")
        raise SpecError([problem], document.source)
    job, field_problems = decode(document, TrainingJob)
    problems = document.problems + field_problems
    unread = [*(problem.path for problem in problems), *(problem.meant for problem in problems if problem.meant)]
    problems += rules.check(job, unread)
    problems += _system_options(document, options)
    if problems:
        placed = [_placed(p, document) for p in problems]
        raise SpecError(sorted(placed, key=lambda p: (p.line or 0, document.position(p.path))), document.source)
    return job


def _placed(problem: Problem, document: Document) -> Problem:
    """Return a problem with its line, or with the name of what has set the field."""
    if source := problem.source or document.origin(problem.path):
        return msgspec.structs.replace(problem, line=None, source=source)
    return msgspec.structs.replace(problem, line=problem.line or document.line(problem.path))


def _system_options(document: Document, options: Options | None) -> list[Problem]:
    systems = document.value.get("systems") if isinstance(document.value, dict) else None
    if options is None or not isinstance(systems, dict):
        return []
    problems = []
    for name, value in systems.items():
        if name not in options:
            guess = nearest(str(name), options)
            fix = f"Write `{guess}`" if guess else "Remove it"
            problems.append(
                Problem(path=("systems", name), wrong="is not a job system", allowed=", ".join(options), fix=fix)
            )
        elif isinstance(value, dict) and (type_ := options[name]):
            problems += decode(document, type_, ("systems", name))[1]
    return problems
