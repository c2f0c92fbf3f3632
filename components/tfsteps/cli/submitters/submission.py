"""The options of a submission, and functions for the submitters of all engines."""

import enum
import pathlib
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from tfsteps.backends.errors import CommandError
from tfsteps.cli.compiled import Compiled
from tfsteps.json_errors import NOT_READABLE
from tfsteps.schedule import Schedule
from tfsteps.spec.spelling import nearest
from tfsteps.text.streams import takes_any


class Scheduler(enum.StrEnum):
    """The values of `--scheduler`."""

    CRONWORKFLOW = "cronworkflow"
    CRONJOB = "cronjob"


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `tfsteps submit`, as described in its help. Empty = not set.

    Attributes:
        parameters: Inputs by name, as text.
        folder: Working directory of local steps.
        tensorboard: Whether a local run has a TensorBoard.
        keep_tensorboard: Whether it has one that stays up after its end.
    """

    compiled: Compiled
    parameters: dict[str, str]
    name: str
    when: Schedule | None
    scheduler: Scheduler
    context: str
    namespace: str
    service_account: str
    image: str
    host: str
    experiment: str
    server_timezone: str
    installed: tuple[str, ...]
    folder: pathlib.Path
    tensorboard: bool
    keep_tensorboard: bool
    dry_run: bool
    wait: bool


def parse_parameters(options: Sequence[str]) -> dict[str, str]:
    """Return the inputs that `--param` options set. CommandError for one without a value, or given twice."""
    parameters: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise CommandError(f"--param {option!r} has no value; write --param NAME=VALUE")
        if name in parameters:
            raise CommandError(f"--param {name} is given twice; leave one out")
        parameters[name] = value
    return parameters


def check_names(supplied: Iterable[str], known: Iterable[str], missing: Iterable[str]) -> None:
    """Raise CommandError for an input that the pipeline does not have, or a required input that is not set.

    Args:
        supplied: Names of the inputs that are set.
        known: Names of all inputs of the pipeline.
        missing: Names of its required inputs.
    """
    names = list(known)
    for name in supplied:
        if name not in names:
            guess = nearest(name, names)
            fix = f"write {guess}" if guess else f"it has {', '.join(names) or 'none'}"
            raise CommandError(f"--param {name}: the pipeline has no such input; {fix}")
    if lacking := [name for name in missing if name not in set(supplied)]:
        raise CommandError(f"the pipeline requires {', '.join(lacking)}; add --param {lacking[0]}=VALUE")


def typed(
    parameters: Mapping[str, str], inputs: Mapping[str, Mapping[str, Any]], known: Collection[str] = ()
) -> dict[str, Any]:
    """Return the inputs of a pipeline of Kubeflow Pipelines, converted to their types.

    Args:
        parameters: Inputs by name, as text.
        inputs: Their definitions in the compiled pipeline.
        known: Names of inputs that are set otherwise.

    Raises:
        CommandError: An input is unknown, missing, or not of its type.
    """
    needed = [
        name
        for name, definition in inputs.items()
        if not definition.get("isOptional") and "defaultValue" not in definition
    ]
    check_names(parameters, inputs, [name for name in needed if name not in known])
    return {name: _typed(name, text, inputs[name]["parameterType"]) for name, text in parameters.items()}


_TYPES: dict[str, Any] = {
    "NUMBER_INTEGER": int,
    "NUMBER_DOUBLE": float,
    "BOOLEAN": bool,
    "LIST": list[Any],
    "STRUCT": dict[str, Any],
}
_EXAMPLES = {
    "NUMBER_INTEGER": "3",
    "NUMBER_DOUBLE": "0.5",
    "BOOLEAN": "true",
    "LIST": '["a", "b"]',
    "STRUCT": '{"a": 1}',
}
_NAMES = {
    "NUMBER_INTEGER": "whole number",
    "NUMBER_DOUBLE": "number",
    "BOOLEAN": "true or false",
    "LIST": "list in JSON",
    "STRUCT": "mapping in JSON",
}


def _typed(name: str, text: str, kind: str) -> Any:
    if kind not in _TYPES:
        return text
    try:
        return msgspec.json.decode(text, type=_TYPES[kind])
    except NOT_READABLE as error:
        wrong = f"--param {name}: {text!r} is not {'' if kind == 'BOOLEAN' else 'a '}{_NAMES[kind]}"
        example = _EXAMPLES[kind]
        written = shlex.quote(f"{name}={example}")
        raise CommandError(f"{wrong}; write something like --param {written}") from error


def print_yaml(documents: list[dict[str, Any]]) -> None:
    """Print documents to standard output."""
    dumped = yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, allow_unicode=takes_any(sys.stdout), width=120)
    print(dumped, end="")


class _Plain(yaml.SafeDumper):
    """Writes repeated values in full instead of as YAML aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True
