"""What a step's program sees of its engine: one task, with its inputs, its outputs and whom it belongs to."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tfsteps.engines.kfp.argument import ARGUMENT
from tfsteps.engines.kfp.executor import ExecutorInput
from tfsteps.runs.identity import Identity

TENSORBOARD_URL = "TFSTEPS_TENSORBOARD_URL"
"""Environment variable of steps: address of the TensorBoard that the engine runs for the whole pipeline."""


class Artifact(Protocol):
    """An input or output artifact."""

    @property
    def path(self) -> pathlib.Path:
        """Where the step reads or writes it; it need not exist."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What its producer said about it; empty = nothing, or this engine has no metadata."""


class Task(Protocol):
    """One task of a pipeline, as its engine hands it to a step's program."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The input parameters that were given or have a default, each of its declared type.

        Raises:
            SpecError: The text of one is not of its type.
        """

    def artifact(self, name: str) -> Artifact | None:
        """Return an input artifact; None if it was not given."""

    def output(self, name: str) -> Artifact | None:
        """Return an output artifact, to be written at its path; None if it is not wanted."""

    def preserve(self, names: Sequence[str]) -> tuple[list[str], str]:
        """Store output artifacts that the engine does not store itself when the step fails; takes a bounded time.

        Args:
            names: What to store, what matters most first; those that were not written are passed over.

        Returns:
            `name: address` of each that was stored, and why others were not; both empty = the engine sees to all.
        """

    def identity(self) -> Identity:
        """Return who this task is, its attempt left at 0."""

    def write(self, parameters: Mapping[str, Any], metadata: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the task's outputs as a whole: every parameter, and for each output artifact its metadata.

        Raises:
            OSError: The disk does not take them.
        """


def task(arguments: Sequence[str]) -> Task:
    """Return the task that a command line describes.

    Raises:
        ValueError: It is no engine's, or not as that engine writes it.
    """
    if ARGUMENT in arguments:
        return ExecutorInput.from_arguments(arguments)
    from tfsteps.engines.argo.task import ArgoTask  # noqa: PLC0415  start-up is measured

    return ArgoTask.from_arguments(arguments)
