"""Reads a `TrainingJob`, or all of its problems, from a text, a file or plain data."""

import os
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from tfsteps.spec import rules
from tfsteps.spec.decode import decode
from tfsteps.spec.document import Document
from tfsteps.spec.problems import Problem, SpecError
from tfsteps.spec.spelling import nearest
from tfsteps.spec.types import TrainingJob

T = TypeVar("T", bound=msgspec.Struct)

Options = Mapping[str, type[msgspec.Struct] | None]
"""The job systems that `systems:` may name, each with the type of its options; None = the options are not checked."""


def load(path: str | os.PathLike[str], options: Options | None = None) -> TrainingJob:
    """Return the job in the YAML or JSON file at `path`.

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
    return parse(text, source, options)


def parse(text: str, source: str = "job", options: Options | None = None) -> TrainingJob:
    """Return the job in a YAML or JSON text; `source` is its name in messages.

    Raises:
        SpecError: It contains all problems of the text.
    """
    from tfsteps.spec import yaml_text  # noqa: PLC0415  plain data needs no yaml

    return _job(yaml_text.parse(text, source), options)


def from_plain(value: Any, source: str = "job", options: Options | None = None) -> TrainingJob:
    """Return the job in plain data, such as a component's inputs.

    Raises:
        SpecError: It contains all problems of the data.
    """
    return _job(Document(value, source=source), options)


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
    job, field_problems = decode(document, TrainingJob)
    problems = document.problems + field_problems
    unread = [*(problem.path for problem in problems), *(problem.meant for problem in problems if problem.meant)]
    problems += rules.check(job, unread)
    problems += _system_options(document, options)
    if problems:
        placed = [msgspec.structs.replace(p, line=p.line or document.line(p.path)) for p in problems]
        raise SpecError(sorted(placed, key=lambda p: (p.line or 0, document.position(p.path))), document.source)
    return job


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
