"""What an engine hands the program of a step: the task."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tfsteps.runs.identity import Identity

TENSORBOARD_URL = "TFSTEPS_TENSORBOARD_URL"
"""Environment variable of steps: address of the TensorBoard that the engine runs for the whole pipeline."""


_MAX_DEPTH = 100  # as of a job file


def check_depth(value: Any, levels: int = _MAX_DEPTH) -> None:
    """Raise RecursionError if an input is nested deeper than `levels`: what walks it later is recursive, too."""
    if levels < 0:
        raise RecursionError(f"it is nested more than {_MAX_DEPTH} levels deep")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_depth(item, levels - 1)


class Artifact(Protocol):
    """An input or output artifact."""

    @property
    def path(self) -> pathlib.Path:
        """Path at which the step reads or writes it; it need not exist."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata from its producer; empty = none, or this engine has no metadata."""


class StepTask(Protocol):
    """One task of a pipeline, as its engine passes it to a step's program."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The input parameters that are set or have a default, each of its declared type.

        Raises:
            SpecError: The text of one is not of its type.
        """

    def pod_settings(self) -> dict[str, Any]:
        """Return what the author set on the task for its pods, as part of a job; empty = nothing reaches the step.

        Raises:
            SpecError: A job description does not support it.
        """

    def artifact(self, name: str) -> Artifact | None:
        """Return an input artifact; None if it is not set."""

    def output(self, name: str) -> Artifact | None:
        """Return an output artifact, to be written at its path; None if the task does not declare it."""

    def preserve(self, names: Sequence[str]) -> tuple[list[str], str]:
        """Store output artifacts that the engine does not store itself when the step fails; takes a bounded time.

        Args:
            names: The artifacts to store, the most important first; those that were not written are skipped.

        Returns:
            `name: address` of each stored artifact, and why others were not stored; both empty = the engine stores all.
        """

    def identity(self) -> Identity:
        """Return the identity of this task, with attempt 0."""

    def write(self, parameters: Mapping[str, Any], metadata: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the task's outputs as a whole: every parameter, and for each output artifact its metadata.

        Raises:
            OSError: They cannot be written to disk.
        """
