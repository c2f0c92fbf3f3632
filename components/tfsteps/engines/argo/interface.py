"""What goes into each component and comes out of it: an extract of the compiled components, cheap to read in a pod.

Argo knows text alone: an input's value is text as it is where its type is text, else JSON.
"""

import functools
import pathlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tfsteps.spec import Problem
from tfsteps.spec.problems import shown

FILE = pathlib.Path(__file__).with_name("interfaces.json")
"""Generated from every `component.yaml` of the package by `make golden`."""

REFERENCE = "{{"
"""What a value holds that Argo fills in later."""

Kind = Literal["STRING", "NUMBER_INTEGER", "NUMBER_DOUBLE", "BOOLEAN", "LIST", "STRUCT"]

_TYPES: Mapping[Kind, type] = {
    "NUMBER_INTEGER": int,
    "NUMBER_DOUBLE": float,
    "BOOLEAN": bool,
    "LIST": list,
    "STRUCT": dict,
}
_TYPE_NAMES: Mapping[Kind, str] = {
    "STRING": "text",
    "NUMBER_INTEGER": "a whole number",
    "NUMBER_DOUBLE": "a number",
    "BOOLEAN": "true or false",
    "LIST": "a list, as JSON",
    "STRUCT": "a mapping, as JSON",
}


class BadValueError(ValueError):
    """A value that is not of its input's type.

    Attributes:
        problem: What is wrong with it.
    """

    def __init__(self, problem: Problem) -> None:
        """Keep `problem`."""
        self.problem = problem
        super().__init__(str(problem))


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input parameter.

    Attributes:
        name: Its name.
        type: As Kubeflow Pipelines calls it.
        description: What its author is told.
        required: Whether it has to be given.
        default: What it is where it is left out; None = then it is missing.
    """

    name: str
    type: Kind
    description: str = ""
    required: bool = False
    default: Any = None

    def decode(self, text: str) -> Any:
        """Return the value that `text` stands for. BadValueError if it stands for none of this type."""
        if self.type == "STRING":
            return text
        try:
            return msgspec.json.decode(text, type=_TYPES[self.type])
        except msgspec.DecodeError:
            raise BadValueError(self._problem(text)) from None

    def encode(self, value: Any) -> str:
        """Return `value` as text; text stays as it is, and may refer to what Argo fills in later.

        Raises:
            BadValueError: It is not of this type.
        """
        if isinstance(value, str):
            if REFERENCE not in value and value:
                self.decode(value)
            return value
        if self.type == "STRING":
            if isinstance(value, int | float) and not isinstance(value, bool):
                return str(value)
            raise BadValueError(self._problem(value))
        import json  # noqa: PLC0415  for authors; a pod does without

        try:
            text = json.dumps(value, default=_reference, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            if REFERENCE not in text:
                self.decode(text)
        except (TypeError, ValueError):
            raise BadValueError(self._problem(value)) from None
        return text

    def _problem(self, value: Any) -> Problem:
        return Problem(
            path=(self.name,),
            value=shown(value),
            wrong="is not of its type",
            allowed=_TYPE_NAMES[self.type],
            fix="Correct or remove it",
        )


def _reference(value: Any) -> str:
    """Return what a Parameter of Hera's refers to. TypeError for anything else."""
    if type(value).__module__.startswith("hera."):
        return str(value)
    raise TypeError(type(value).__name__)


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An output.

    Attributes:
        name: Its name.
        type: Of a parameter as of an input; of an artifact its schema title, such as `system.HTML`.
        description: What its reader is told.
    """

    name: str
    type: str
    description: str = ""

    @property
    def artifact(self) -> bool:
        """Whether it is a file to keep, and not a value: of models and metrics Argo gets what is said about them."""
        return "." in self.type and self.type not in {"system.Model", "system.Metrics"}


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """A component.

    Attributes:
        name: Its name, and that of its package.
        description: What it does.
        inputs: In their order.
        outputs: In their order.
    """

    name: str
    description: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]


@functools.cache
def interfaces() -> Mapping[str, Interface]:
    """Return all components by name."""
    return {interface.name: interface for interface in msgspec.json.decode(FILE.read_bytes(), type=list[Interface])}
