"""Pipelines: found in a program, compiled to YAML, and checked."""

import importlib.util
import types
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tfsteps.engines.authoring import Authoring, Document
from toy_engine.pipeline import Pipeline


class ToyAuthoring(Authoring):
    """The toy engine."""

    def pipelines(self, module: types.ModuleType) -> dict[str, tuple[Any, Callable[[], str]]]:
        """Return the pipelines that the program assigns to names."""

        def compiler(pipeline: Pipeline) -> Callable[[], str]:
            return lambda: msgspec.yaml.encode(pipeline).decode()

        named = {name: value for name, value in vars(module).items() if isinstance(value, Pipeline)}
        return {name: (pipeline, compiler(pipeline)) for name, pipeline in named.items()}

    def reads(self, documents: Sequence[Document]) -> bool:
        """Tell whether the first document has the name of a toy pipeline."""
        return "toy" in documents[0]

    def title(self, document: Document) -> str:
        """Return the name of the pipeline."""
        return str(document["toy"])

    def lint_messages(self, text: str) -> list[str]:
        """Return a sentence for each field, name and program that is wrong."""
        try:
            steps = msgspec.yaml.decode(text, type=Pipeline).steps
        except msgspec.ValidationError as error:
            return [f"{error}; correct or remove the field"]
        twice = [name for name, count in Counter(step.name for step in steps).items() if count > 1]
        unknown = [step for step in steps if importlib.util.find_spec(f"tfsteps.steps.{step.program}") is None]
        return [
            *(f"step {name} exists twice; rename one" for name in twice),
            *(f"step {step.name}: program {step.program!r} is unknown; use train or cleanup" for step in unknown),
        ]


AUTHORING = ToyAuthoring()
