"""The task that a step's program gets: a JSON file with its inputs, and a folder for its outputs."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.runs.identity import Identity


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A `StepTask`, which describes the methods.

    Attributes:
        run: Id of the run.
        pipeline: Name of the pipeline.
        name: Name of the step. With `run`, the same for each try: a try finds the job of the one before it.
        parameters: The inputs.
        outputs: The file of the outputs.
    """

    run: str
    pipeline: str
    name: str
    parameters: dict[str, Any]
    outputs: str

    def pod_settings(self) -> dict[str, Any]:
        """Return nothing: the author sets nothing on a task."""
        return {}

    def artifact(self, name: str) -> None:
        """Return None: there are no artifacts."""

    def output(self, name: str) -> None:
        """Return None: there are no artifacts."""

    def preserve(self, names: Sequence[str]) -> tuple[list[str], str]:
        """Store nothing: there are no artifacts."""
        return [], ""

    def identity(self) -> Identity:
        """Return run and task."""
        return Identity.checked(run=self.run, task=self.name, pipeline=self.pipeline)

    def write(self, parameters: Mapping[str, Any], metadata: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the outputs as a whole."""
        file = pathlib.Path(self.outputs)
        new = file.with_name(f"{file.name}.new")
        new.write_bytes(msgspec.json.encode(parameters))
        new.replace(file)


def read(arguments: Sequence[str]) -> Task:
    """Return the task of a command line. ValueError if it is not complete."""
    try:
        return msgspec.json.decode(pathlib.Path(arguments[1]).read_bytes(), type=Task)
    except (IndexError, OSError, msgspec.MsgspecError) as error:
        raise ValueError(f"expected {arguments[0]} and the file of a task: {error}") from error
