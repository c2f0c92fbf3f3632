"""The command line of cube-studio's job template: `--name value` for each field of the task's form. Pure.

cube-studio passes text as it is, a mapping as JSON, and leaves out what is empty.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.json_errors import NOT_READABLE
from tfsteps.spec import Problem
from tfsteps.spec.problems import shown

_Inputs = dict[str, Any]


def _count(name: str) -> Callable[[str], _Inputs]:
    """Return the reader of a number of replicas, which sets the input `name`."""

    def read(text: str) -> _Inputs:
        if not (text.isascii() and text.isdecimal()):
            raise ValueError("is not a number of replicas")
        return {name: int(text)}

    return read


def _environment(text: str) -> _Inputs:
    """Read variables: a JSON object, or lines `NAME=VALUE`, as everywhere in cube-studio."""
    if text.lstrip().startswith("{"):
        return {"env": _mapping(text)}
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("=" not in line for line in lines):
        raise ValueError("has a line without `=`")
    return {"env": {name.strip(): value for name, _, value in (line.partition("=") for line in lines)}}


def _job(text: str) -> _Inputs:
    return {"spec": _mapping(text)}


def _mapping(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except NOT_READABLE:
        from tfsteps import yaml_reader  # noqa: PLC0415  most tasks have JSON, or none

        value = yaml_reader.document(text)
        if not isinstance(value, dict):
            raise ValueError("is not a mapping, as JSON or YAML") from None  # noqa: TRY004  the text is wrong
        return value


ARGUMENTS: Mapping[str, Callable[[str], _Inputs]] = {
    "--image": lambda text: {"image": text},
    "--working_dir": lambda text: {"working_dir": text},
    "--command": lambda text: {"command": ["bash", "-c", text]},
    "--num_worker": _count("workers"),
    "--num_chief": _count("chief"),
    "--num_ps": _count("ps"),
    "--num_evaluator": _count("evaluator"),
    "--env": _environment,
    "--job": _job,
    "--system": lambda text: {"system": text},
}
"""The arguments, each with what reads its text into inputs of the `train` step; `working_dir` is a field of the job."""


def parse(argv: Sequence[str]) -> tuple[_Inputs, list[Problem]]:
    """Return the inputs of a command line, and its problems; an argument with an empty value counts as left out."""
    inputs, problems, seen = _Inputs(), list[Problem](), set[str]()
    words = iter(argv)
    for name in words:
        text = next(words, None)
        wrong = _wrong(name, text, seen)
        seen.add(name)
        if wrong:
            problems.append(wrong)
        elif text and text.strip():
            try:
                inputs |= ARGUMENTS[name](text.strip())
            except ValueError as error:
                problems.append(
                    Problem(path=(name,), value=shown(text), wrong=str(error), fix="Correct it in the task")
                )
    return inputs, problems


def _wrong(name: str, text: str | None, seen: set[str]) -> Problem | None:
    if name not in ARGUMENTS:
        allowed = ", ".join(ARGUMENTS)
        return Problem(path=(name,), wrong="is not an argument of this template", allowed=allowed, fix="Remove it")
    if text is None:
        return Problem(path=(name,), wrong="has no value", fix="Give it one, or remove it")
    return Problem(path=(name,), wrong="is there twice", fix="Remove one of the two") if name in seen else None
