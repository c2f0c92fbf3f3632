"""Pipelines of Kubeflow Pipelines: found in a program, compiled and checked."""

import pathlib
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsteps.engines.authoring import Authoring, Document, PipelineTask

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.preflight.references import Reference


class KubeflowAuthoring(Authoring):
    """Kubeflow Pipelines."""

    macro_fix = (
        "Kubeflow Pipelines 2 does not replace it in the inputs of every run. In the pipeline, pass "
        "dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER to the task, as the whole of an input; it needs version 2.16"
    )

    def pipelines(self, module: types.ModuleType) -> dict[str, tuple[Any, Callable[[], str]]]:
        """Return the functions of the program that are pipelines; those that it imports are not its own."""
        if "kfp" not in sys.modules:
            return {}
        from kfp.dsl.graph_component import GraphComponent  # noqa: PLC0415  the program has imported it

        def compiler(pipeline: Any) -> Callable[[], str]:
            return lambda: compiled_text(pipeline)

        named = {name: value for name, value in vars(module).items() if isinstance(value, GraphComponent)}
        return {
            name: (pipeline, compiler(pipeline))
            for name, pipeline in named.items()
            if pipeline.pipeline_func.__module__ == module.__name__
        }

    def reads(self, documents: Sequence[Document]) -> bool:
        """Tell whether the first document is a pipeline spec."""
        return "pipelineInfo" in documents[0] or "deploymentSpec" in documents[0]

    def title(self, document: Document) -> str:
        """Return the name of the pipeline."""
        return str(document.get("pipelineInfo", {}).get("name", "pipeline"))

    def lint_messages(self, text: str) -> list[str]:
        """Return what fails on the back end."""
        from tfsteps.engines.kfp import lint  # noqa: PLC0415  one engine is enough

        return lint.lint_messages(text)

    def warnings(self, text: str) -> list[str]:
        """Return what may fail on the back end."""
        from tfsteps.engines.kfp import lint  # noqa: PLC0415

        return lint.warnings(text)

    def references(self, documents: Sequence[Document]) -> "Iterator[tuple[str, list[Reference]]]":
        """Yield what the pods of a pipeline with the defaults of its inputs need."""
        from tfsteps.engines.kfp.pod_references import NAMESPACE, pod_references  # noqa: PLC0415

        yield NAMESPACE, list(pod_references(documents, {}))

    def task_paths(self, documents: Sequence[Document]) -> list[str]:
        """Return the tasks that start a container."""
        from tfsteps.engines.kfp import tasks  # noqa: PLC0415  one engine is enough

        return tasks.task_paths(documents)

    def task(self, documents: Sequence[Document], path: str, values: Mapping[str, str], run: str) -> PipelineTask:
        """Return a task with the inputs of its step."""
        from tfsteps.engines.kfp import tasks  # noqa: PLC0415

        return tasks.pipeline_task(documents, path, values, run)


def compiled_text(pipeline: Any) -> str:
    """Return the pipeline, the result of `@dsl.pipeline` or loaded from a text, as `kfp.compiler` writes it."""
    from kfp import compiler  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "pipeline.yaml")
        compiler.Compiler().compile(pipeline, str(file))
        return file.read_text("utf-8")


AUTHORING = KubeflowAuthoring()
