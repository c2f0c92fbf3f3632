"""The part of an engine that pipeline authors use: it finds, compiles and checks pipelines."""

import abc
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.preflight.references import Reference

Document = Mapping[str, Any]

PIPELINES_1_MACRO = r"\[\[(?:ScheduledTime|CurrentTime|RunUUID|Index)[^\]]*\]\]"
KUBEFLOW_MACRO = r"\{\{\s*\$[^{}]*\}\}"
ARGO_MACRO = r"\{\{\s*workflow\.[^{}]*\}\}"


class Authoring(abc.ABC):
    """One engine. It imports the engine's SDK and rules when they are used.

    Attributes:
        other_macros: Patterns of macros for the time or the name of a run that the engine does not replace in the
            inputs of a submission, so that the program may get them as they are.
        macro_fix: Why, and what to write instead, as a sentence that follows.
    """

    other_macros: Collection[str] = (PIPELINES_1_MACRO, KUBEFLOW_MACRO, ARGO_MACRO)
    macro_fix: str = "it is not replaced. Write the value"

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

    def references(self, documents: Sequence[Document]) -> "Iterator[tuple[str, list[Reference]]]":  # noqa: ARG002
        """Yield the objects of a cluster that the pods of compiled pipelines need, each list with its namespace.

        An empty namespace is the one of the command.
        """
        yield from ()
