"""What a step's program sees of its engine: its task, and the pipeline that its pod is a step of."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tfsteps.runs.identity import Identity
from tfsteps.systems.pipeline import FindPipeline

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


class StepTask(Protocol):
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


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline engine, as the programs of steps need it. Its functions import what is expensive when called.

    Attributes:
        usage: The command line that it starts a step with, for messages.
        recognizes: Tells whether a command line is this engine's.
        step_task: Returns the task that a command line of this engine describes; ValueError if it is not complete.
        find_pipeline: Returns the pipeline that a pod is a step of; None = it is not of this engine.
    """

    usage: str
    recognizes: Callable[[Sequence[str]], bool]
    step_task: Callable[[Sequence[str]], StepTask]
    find_pipeline: FindPipeline
