"""The part of an engine that pipeline authors use: it finds, compiles and checks pipelines."""

import abc
import importlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]


class Authoring(abc.ABC):
    """One engine. It imports the engine's SDK and rules when they are used."""

    def pipelines(self, module: types.ModuleType) -> dict[str, tuple[Any, Callable[[], str]]]:  # noqa: ARG002
        """Return the pipelines that a program defines, by name, each with a function that compiles it to text."""
        return {}

    def reads(self, documents: Sequence[Document]) -> bool:  # noqa: ARG002
        """Tell whether documents are compiled pipelines of this engine."""
        return False

    def expanded(self, documents: Sequence[Document]) -> list[Any]:
        """Return the documents that a file of this engine has, the first the one that it is named after."""
        return list(documents)

    def title(self, document: Document) -> str:  # noqa: ARG002
        """Return the name of a compiled pipeline."""
        return "pipeline"

    @abc.abstractmethod
    def problems(self, text: str) -> list[str]:
        """Return a sentence for everything that fails on the engine although it compiles."""

    def warnings(self, text: str) -> list[str]:  # noqa: ARG002
        """Return a sentence for everything that may be intended, or fails only on some versions of the engine."""
        return []

    def missing_arguments(self, text: str) -> list[str]:  # noqa: ARG002
        """Return a sentence for each argument that must be set at submission."""
        return []

    def with_arguments(self, documents: list[Any], arguments: Mapping[str, str]) -> str | None:  # noqa: ARG002
        """Return compiled pipelines as text, as they are once all arguments are given; None = arguments change nothing.

        Args:
            documents: The compiled pipelines.
            arguments: Those that replace arguments in them.
        """
        return None


def authoring(engine: str) -> Authoring:
    """Return the authoring half of the engine called `engine`: kfp, argo or local."""
    module = importlib.import_module(f"tfsteps.engines.{engine}.authoring")
    half: Authoring = module.AUTHORING
    return half
