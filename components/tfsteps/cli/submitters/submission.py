"""The options of a submission, and functions for the submitters of all engines."""

import enum
import pathlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import yaml

from tfsteps.cli.compiled import Compiled
from tfsteps.cli.errors import CommandError
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
    dry_run: bool
    wait: bool


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


def typed(parameters: Mapping[str, str], inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the inputs of a pipeline of Kubeflow Pipelines, converted to their types.

    Raises:
        CommandError: An input is unknown, missing, or not of its type.
    """
    needed = [
        name
        for name, definition in inputs.items()
        if not definition.get("isOptional") and "defaultValue" not in definition
    ]
    check_names(parameters, inputs, needed)
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


def _typed(name: str, text: str, kind: str) -> Any:
    if kind not in _TYPES:
        return text
    try:
        return msgspec.json.decode(text, type=_TYPES[kind])
    except NOT_READABLE as error:
        raise CommandError(
            f"--param {name}={text!r} is not a {kind}; write something like --param {name}='{_EXAMPLES[kind]}'"
        ) from error


def print_yaml(documents: list[dict[str, Any]]) -> None:
    """Print documents to standard output."""
    dumped = yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, allow_unicode=takes_any(sys.stdout), width=120)
    print(dumped, end="")


class _Plain(yaml.SafeDumper):
    """Writes repeated values in full instead of as YAML aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True
