"""The part of an engine that pipeline authors use: it finds, compiles and checks pipelines."""

import abc
import re
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tfsteps.spec.problems import Path, Problem, SpecError

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.preflight.references import Reference

Document = Mapping[str, Any]

SETTINGS = "settings"
"""In `PipelineTask.missing`: what the author set on the task."""

REFERENCE = "{{"
"""The beginning of a reference in the text of an input. An engine with other references finds them by itself."""


def places(value: Any, path: Path = (), *, mark: str = REFERENCE) -> Iterator[Path]:
    """Yield the paths of all texts that contain `mark`, and of mappings with such keys."""
    match value:
        case str() if mark in value:
            yield path
        case Mapping():
            if any(mark in str(key) for key in value):
                yield path
            for key, item in value.items():
                yield from places(item, (*path, key), mark=mark)
        case list():
            for i, item in enumerate(value):
                yield from places(item, (*path, i), mark=mark)


def overlaps(path: Path, others: Sequence[Path]) -> bool:
    """Tell whether a path is equal to, above or below one of the others."""
    return any(path[: len(other)] == other[: len(path)] for other in others)


class PipelineTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a compiled pipeline, to be run by itself.

    Attributes:
        step: The step of tfsteps that it runs, such as `train`; empty = another program.
        inputs: The inputs of the step by name, defaults included; those in `missing` are left out.
        missing: For each input without a value, the names of the values to supply: `{"data": ["prepare.file"]}`.
        names: The names of all values that can be supplied, beside the inputs of the pipeline.
        settings: What the author set on the task, as a partial job.
        warnings: Sentences about settings that the job does not get.
    """

    step: str
    inputs: Mapping[str, Any]
    missing: Mapping[str, Sequence[str]]
    names: Collection[str]
    settings: Mapping[str, Any] = {}
    warnings: Sequence[str] = ()


class Authoring(abc.ABC):
    """One engine. It imports the engine's SDK and rules when they are used.

    Attributes:
        macros: Patterns of macros for the time or the name of a run in the notation of this engine.
        replaces_macros: Whether it replaces them in the inputs of a submission. Of other macros, and of those that it
            does not replace, a warning says that the program may get them as they are.
        macro_fix: Why, and what to write instead, as a sentence that follows the warning.
    """

    macros: Collection[re.Pattern[str]] = ()
    replaces_macros: bool = False
    macro_fix: str = "it is not replaced. Write the value"

    def pipelines(self, module: types.ModuleType) -> dict[str, tuple[Any, Callable[[], str]]]:  # noqa: ARG002
        """Return the pipelines that a program defines, by name, each with a function that compiles it to text."""
        return {}

    def ignore_warnings(self) -> None:  # noqa: B027
        """Ignore warnings of the engine's SDK that authors cannot act on; called before a program is imported."""

    def program_fix(self, error: BaseException) -> str:  # noqa: ARG002
        """Return what to do about an error of a program, as a clause; empty = it is not known to this engine."""
        return ""

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
    def lint_messages(self, text: str) -> list[str]:
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

    def task_paths(self, documents: Sequence[Document]) -> list[str]:  # noqa: ARG002
        """Return the tasks of a compiled pipeline that start a container: their names from the outermost, with `/`."""
        return []

    def task(self, documents: Sequence[Document], path: str, values: Mapping[str, str], run: str) -> PipelineTask:
        """Return one task of a compiled pipeline.

        Args:
            documents: The compiled pipeline.
            path: One of its `task_paths`.
            values: Values as text, by name: inputs of the pipeline, `epochs`; what only a run knows, such as outputs of
                other tasks, `prepare.file`; and inputs of the task that replace those of the pipeline, `train.data`.
            run: Id of the run, in place of that of a run of the pipeline.

        Raises:
            CommandError: The pipeline has no such input, or a value is not of its type.
            SpecError: The same, of an input of the task.
        """
        raise NotImplementedError


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

    def _line(self, problem: Problem) -> str:
        return f"{self.source}: {problem.wrong}"
