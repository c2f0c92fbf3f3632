"""The inputs and outputs of each component: an extract of the compiled components, which a pod can read quickly.

Argo passes only text: an input of type text is passed as it is, any other input as JSON.
"""

import functools
import pathlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tfsteps import typed_json
from tfsteps.engines.authoring import REFERENCE
from tfsteps.engines.base import check_depth
from tfsteps.json_errors import NOT_READABLE
from tfsteps.spec import Problem
from tfsteps.spec.problems import shown

FILE = pathlib.Path(__file__).with_name("interfaces.json")
"""Generated from every `component.yaml` of the package by `make golden`."""

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
        problem: The problem of the value.
    """

    def __init__(self, problem: Problem) -> None:
        """Keep `problem`."""
        self.problem = problem
        super().__init__(str(problem))


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input parameter.

    Attributes:
        name: Its name.
        type: Its type in Kubeflow Pipelines.
        description: Description for authors.
        required: Whether it must be set.
        default: Its value if it is left out; None = no default.
    """

    name: str
    type: Kind
    description: str = ""
    required: bool = False
    default: Any = None

    def decode(self, text: str) -> Any:
        """Return the value that `text` encodes. BadValueError if it does not encode a value of this type."""
        if self.type == "STRING":
            return text
        try:
            value: Any = typed_json.decode(text, _TYPES[self.type])
            check_depth(value)
        except NOT_READABLE:
            raise BadValueError(self._problem(text)) from None
        return value

    def encode(self, value: Any) -> str:
        """Return `value` as text; text is returned as it is, and may contain references for Argo.

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
        import json  # noqa: PLC0415  for authors; pods do not need it

        try:
            text = json.dumps(value, default=_reference, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            if REFERENCE not in text:
                self.decode(text)
        except (TypeError, ValueError):
            raise BadValueError(self._problem(value)) from None
        return text

    def _problem(self, value: Any) -> Problem:
        fits = (self.type == "LIST" and isinstance(value, list)) or (self.type == "STRUCT" and isinstance(value, dict))
        return Problem(
            path=(self.name,),
            value=shown(value),
            wrong="has a value that JSON cannot hold, such as NaN" if fits else "is not of its type",
            allowed=_TYPE_NAMES[self.type],
            fix="Correct or remove it",
        )


def _reference(value: Any) -> str:
    """Return the reference of a Hera Parameter. TypeError for anything else."""
    if type(value).__module__.startswith("hera."):
        return str(value)
    raise TypeError(type(value).__name__)


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An output.

    Attributes:
        name: Its name.
        type: A parameter's type, as for inputs; an artifact's schema title, such as `system.HTML`.
        description: Description for readers.
    """

    name: str
    type: str
    description: str = ""

    @property
    def artifact(self) -> bool:
        """Whether it is a file, not a value. Argo gets the metadata of models and metrics as values."""
        return "." in self.type and self.type not in {"system.Model", "system.Metrics"}


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """A component.

    Attributes:
        name: Its name, and the name of its package.
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
    return {interface.name: interface for interface in typed_json.decode(FILE.read_bytes(), list[Interface])}
