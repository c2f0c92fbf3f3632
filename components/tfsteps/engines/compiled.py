"""A compiled pipeline, and the error with its problems."""

from typing import Any

import msgspec

from tfsteps.engines.authoring import Authoring
from tfsteps.spec.problems import Problem, SpecError


class Compiled(msgspec.Struct, frozen=True):
    """A compiled pipeline.

    Attributes:
        source: Name of the pipeline in messages.
        text: The compiled text.
        documents: The YAML documents in the text.
        engine: Name of the engine that it is compiled for.
        authoring: Of that engine.
        pipeline: The pipeline object of the program, for local runs; None if the pipeline was read from a file.
    """

    source: str
    text: str
    documents: list[dict[str, Any]]
    engine: str
    authoring: Authoring
    pipeline: Any = None

    @property
    def name(self) -> str:
        """The pipeline's or the manifest's name."""
        return self.authoring.title(self.documents[0])


class LintError(SpecError):
    """The problems of a lint, as sentences that contain the place and the fix."""

    def __init__(self, source: str, sentences: list[str]) -> None:
        """Store each sentence as a problem."""
        super().__init__([Problem(path=(), wrong=sentence, fix="") for sentence in sentences], source)

    def _lines(self) -> list[str]:
        return [f"{self.source}: {problem.wrong}" for problem in self.problems]
