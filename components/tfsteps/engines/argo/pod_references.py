"""The objects of a cluster that the pods of a manifest of Argo Workflows need."""

from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.systems.kubernetes.preflight.references import ACCOUNTS, Reference, of_container, of_volume


def pod_references(manifest: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the objects that the pods of a manifest refer to, except names that are known only when it runs.

    Args:
        manifest: A Workflow, CronWorkflow or template, with its arguments.
    """
    spec = manifest["spec"].get("workflowSpec", manifest["spec"])
    parameters = (spec.get("arguments") or {}).get("parameters") or []
    values = {parameter["name"]: str(parameter["value"]) for parameter in parameters if "value" in parameter}
    for reference in _within(spec):
        name = reference.name
        for parameter, value in values.items():
            name = name.replace(f"{{{{workflow.parameters.{parameter}}}}}", value)
        if name and "{{" not in name:
            yield Reference(reference.resource, name)


def _within(node: Any) -> Iterator[Reference]:
    """Yield the references in a part of a manifest, at any depth."""
    if isinstance(node, Mapping):
        yield from (reference for volume in _items(node, "volumes") for reference in of_volume(volume))
        yield from of_container({field: _items(node, field) for field in ("env", "envFrom")})
        if isinstance(account := node.get("serviceAccountName"), str):
            yield Reference(ACCOUNTS, account)
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        yield from _within(item)


def _items(node: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    items = node.get(field)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
