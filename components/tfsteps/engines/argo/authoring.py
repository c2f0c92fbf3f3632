"""Manifests of Argo Workflows: found in a Hera program, written and checked."""

import contextlib
import copy
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from tfsteps.engines.authoring import Authoring, Document


class ArgoAuthoring(Authoring):
    """Argo Workflows."""

    def pipelines(self, module: types.ModuleType) -> dict[str, tuple[Any, Callable[[], str]]]:
        """Return the Workflows, templates and crons that the program defines with Hera."""
        if "hera.workflows" not in sys.modules:
            return {}
        from hera.workflows import Workflow  # noqa: PLC0415  the program has imported it

        return {name: (value, value.to_yaml) for name, value in vars(module).items() if isinstance(value, Workflow)}

    def reads(self, documents: Sequence[Document]) -> bool:
        """Tell whether all documents are Argo objects."""
        return all(str(document.get("apiVersion", "")).startswith("argoproj.io/") for document in documents)

    def title(self, document: Document) -> str:
        """Return the manifest's name; a generated name without the suffix that Argo appends."""
        metadata = document.get("metadata") or {}
        return str(metadata.get("name") or str(metadata.get("generateName", "workflow")).rstrip("-"))

    def problems(self, text: str) -> list[str]:
        """Return what Argo refuses or drops, and wrong inputs of the steps of tfsteps."""
        from tfsteps.engines.argo import lint  # noqa: PLC0415  one engine is enough

        return lint.problems(text)

    def missing_arguments(self, text: str) -> list[str]:
        """Return a sentence for each input that must be set when a Workflow is submitted."""
        from tfsteps.engines.argo import lint  # noqa: PLC0415

        return lint.warnings(text)

    def with_arguments(self, documents: list[Any], arguments: Mapping[str, str]) -> str:
        """Return manifests with these arguments, and with a value for every other argument."""
        filled = copy.deepcopy(documents)
        with contextlib.suppress(AttributeError, KeyError, TypeError):  # another shape: `problems` reports it
            for document in filled:
                spec = document.get("spec") or {}
                for parameter in ((spec.get("workflowSpec") or spec).get("arguments") or {}).get("parameters") or []:
                    if parameter["name"] in arguments:
                        parameter.pop("valueFrom", None)
                        parameter["value"] = arguments[parameter["name"]]
                    elif not {"value", "valueFrom", "default"} & set(parameter):
                        parameter["value"] = ""
        return yaml.safe_dump_all(filled)


AUTHORING = ArgoAuthoring()
