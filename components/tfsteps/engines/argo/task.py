"""The task that Argo passes to a step, and the output files that Argo reads. Does not need Hera."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.engines.argo import ARGUMENT
from tfsteps.engines.argo.interface import BadValueError, Input, Interface, interfaces
from tfsteps.engines.argo.node_names import pipeline_name, step_name
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.identity import Identity, new_run_id
from tfsteps.spec import Problem, SpecError

RUN_ID = "TFSTEPS_RUN_ID"
NODE_NAME = "TFSTEPS_NODE_NAME"
WORKFLOW = "TFSTEPS_WORKFLOW"
ARTIFACTS = "TFSTEPS_ARTIFACTS"
FOLDER = pathlib.Path("/tmp/tfsteps")  # noqa: S108  an emptyDir of the pod
"""Contains the folders `outputs`, `artifacts` and `inputs`, each with one file per name."""


class File(msgspec.Struct, frozen=True):
    """An artifact: a file in the pod.

    Attributes:
        path: Its path; an output is to be written there.
    """

    path: pathlib.Path

    @property
    def metadata(self) -> dict[str, Any]:
        """The JSON object in the file; empty if the file has other content."""
        try:
            return typed_json.decode(self.path.read_bytes(), dict[str, Any])
        except (OSError, *NOT_READABLE):
            return {}


class ArgoTask:
    """One node of a Workflow."""

    def __init__(
        self, interface: Interface, texts: Mapping[str, str], environment: Mapping[str, str], folder: pathlib.Path
    ) -> None:
        """Keep the inputs as text; an empty input counts as left out."""
        self._interface = interface
        self._texts = {name: text for name, text in texts.items() if text}
        self._environment = environment
        self._folder = folder

    @classmethod
    def from_arguments(
        cls, arguments: Sequence[str], environment: Mapping[str, str] = os.environ, folder: pathlib.Path = FOLDER
    ) -> "ArgoTask":
        """Read a command line `--argo COMPONENT NAME=VALUE ...`.

        Raises:
            ValueError: The command line names no component.
        """
        known = interfaces()
        name = arguments[1] if len(arguments) > 1 else ""
        if name not in known:
            raise ValueError(f"expected a component after {ARGUMENT}, one of {', '.join(known)}, not {name!r}")
        pairs = (word.partition("=") for word in arguments[2:])
        return cls(known[name], {name: text for name, _, text in pairs}, environment, folder)

    @property
    def parameters(self) -> dict[str, Any]:
        """The inputs that were given or have a default, each of its declared type. SpecError if one is not."""
        values: dict[str, Any] = {}
        problems = []
        for declared in self._interface.inputs:
            try:
                value = self._value(declared)
            except BadValueError as error:
                problems.append(error.problem)
            else:
                values |= {} if value is None else {declared.name: value}
        problems += [
            self._unknown(name) for name in self._texts.keys() - {declared.name for declared in self._interface.inputs}
        ]
        if problems:
            raise SpecError(problems, "inputs")
        return values

    def _value(self, declared: Input) -> Any:
        if declared.name in self._texts:
            return declared.decode(self._texts[declared.name])
        if declared.required:
            raise BadValueError(Problem(path=(declared.name,), wrong="it is missing", fix="Give it a value"))
        return declared.default

    def _unknown(self, name: str) -> Problem:
        allowed = ", ".join(declared.name for declared in self._interface.inputs)
        return Problem(path=(name,), wrong="is not an input", allowed=allowed, fix="Remove it")

    def pod_settings(self) -> dict[str, Any]:
        """Return nothing: Argo applies what a template sets to the launcher's pod alone."""
        return {}

    def artifact(self, name: str) -> File | None:
        path = self._folder / "inputs" / name
        return File(path) if path.exists() else None

    def output(self, name: str) -> File | None:
        """Return an output artifact, to be written at its path; None if the template has none of that name."""
        declared = name in self._environment.get(ARTIFACTS, "").split()
        return File(self._folder / "artifacts" / name) if declared else None

    def preserve(self, names: Sequence[str]) -> tuple[list[str], str]:  # noqa: ARG002
        """Do nothing: Argo stores the artifacts of failed steps, too."""
        return [], ""

    def identity(self) -> Identity:
        """Return the identity of this node, with attempt 0.

        The run is the input `run_id`, otherwise the Workflow's uid. The task is the node's name: it is the same for
        retries and re-created pods, and different for each step and each iteration of a loop.
        """
        env = self._environment
        return Identity.checked(
            run=self._texts.get("run_id") or env.get(RUN_ID) or new_run_id(),
            task=step_name(env.get(NODE_NAME, "")) or self._interface.name,
            pipeline=pipeline_name(env.get(WORKFLOW, "")),
        )

    def write(self, parameters: Mapping[str, Any], metadata: Mapping[str, Mapping[str, Any]]) -> None:
        """Write each output parameter to a file: the path of a model, all values of metrics. OSError if that fails."""
        values = dict(parameters)
        for output in self._interface.outputs:
            if output.type == "system.Model":
                values[output.name] = metadata.get(output.name, {}).get("path")
            elif output.type == "system.Metrics":
                values[output.name] = metadata.get(output.name, {})
        folder = self._folder / "outputs"
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in values.items():
            (folder / name).write_bytes(_text(value))


def _text(value: Any) -> bytes:
    match value:
        case None:
            return b""
        case str():
            return value.encode()
        case _:
            return msgspec.json.encode(value)
