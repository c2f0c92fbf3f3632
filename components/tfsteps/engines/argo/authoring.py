"""Manifests of Argo Workflows: found in a Hera program, written and checked."""

import contextlib
import copy
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from tfsteps.engines.authoring import KUBEFLOW_MACRO, PIPELINES_1_MACRO, Authoring, Document, PipelineTask

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.preflight.references import Reference


class ArgoAuthoring(Authoring):
    """Argo Workflows."""

    other_macros = (PIPELINES_1_MACRO, KUBEFLOW_MACRO)
    macro_fix = "Argo does not replace it. In runs of a CronWorkflow, '{{workflow.scheduledTime}}' is the time"

    def pipelines(self, module: types.ModuleType) -> dict[str, tuple[Any, Callable[[], str]]]:
        """Return the Workflows, templates and crons that the program defines with Hera."""
        if "hera.workflows" not in sys.modules:
            return {}
        from hera.workflows import Workflow  # noqa: PLC0415  the program has imported it

        return {name: (value, value.to_yaml) for name, value in vars(module).items() if isinstance(value, Workflow)}

    def reads(self, documents: Sequence[Document]) -> bool:
        """Tell whether one of the documents is an Argo object, such as a Workflow beside its ConfigMap."""
        return any(_is_argos(document) for document in self.expanded(documents))

    def expanded(self, documents: Sequence[Document]) -> list[Any]:
        """Return the manifests, those in a `kind: List` too; Argo's first."""
        from tfsteps.engines.argo import lint  # noqa: PLC0415  one engine is enough

        return sorted(lint.manifests(documents), key=lambda document: not _is_argos(document))

    def title(self, document: Document) -> str:
        """Return the manifest's name; a generated name without the suffix that Argo appends."""
        metadata = document.get("metadata") or {}
        return str(metadata.get("name") or str(metadata.get("generateName", "workflow")).rstrip("-"))

    def lint_messages(self, text: str) -> list[str]:
        """Return what Argo refuses or drops, and wrong inputs of the steps of tfsteps."""
        from tfsteps.engines.argo import lint  # noqa: PLC0415  one engine is enough

        return lint.lint_messages(text)

    def warnings(self, text: str) -> list[str]:
        """Return what fails on some versions of Argo."""
        from tfsteps.engines.argo import lint  # noqa: PLC0415

        return lint.cautions(text)

    def missing_arguments(self, text: str) -> list[str]:
        """Return a sentence for each input that must be set when a Workflow is submitted."""
        from tfsteps.engines.argo import lint  # noqa: PLC0415

        return lint.missing_arguments(text)

    def with_arguments(self, documents: list[Any], arguments: Mapping[str, str]) -> str:
        """Return manifests with these arguments."""
        filled = copy.deepcopy(documents)
        with contextlib.suppress(AttributeError, KeyError, TypeError):  # another shape: `problems` reports it
            for document in filled:
                spec = document.get("spec") or {}
                for parameter in ((spec.get("workflowSpec") or spec).get("arguments") or {}).get("parameters") or []:
                    if parameter["name"] in arguments:
                        parameter.pop("valueFrom", None)
                        parameter["value"] = arguments[parameter["name"]]
        return yaml.safe_dump_all(filled)

    def references(self, documents: Sequence[Document]) -> "Iterator[tuple[str, list[Reference]]]":
        """Yield what the pods of each manifest need, in the manifest's namespace."""
        from tfsteps.engines.argo.pod_references import pod_references  # noqa: PLC0415

        for manifest in filter(_is_argos, documents):
            yield str(manifest["metadata"].get("namespace") or ""), list(pod_references(manifest))

    def task_paths(self, documents: Sequence[Document]) -> list[str]:
        """Return the tasks that start a container."""
        from tfsteps.engines.argo import tasks  # noqa: PLC0415  one engine is enough

        return tasks.task_paths(documents)

    def task(self, documents: Sequence[Document], path: str, values: Mapping[str, str], run: str) -> PipelineTask:
        """Return a task with the inputs of its step."""
        from tfsteps.engines.argo import tasks  # noqa: PLC0415

        return tasks.pipeline_task(documents, path, values, run)


def _is_argos(document: Any) -> bool:
    return isinstance(document, dict) and str(document.get("apiVersion", "")).startswith("argoproj.io/")


AUTHORING = ArgoAuthoring()
