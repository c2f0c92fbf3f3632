"""The settings of a task in a compiled pipeline, as the driver passes them to the launcher in `dsl.TaskConfig`."""

from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.engines.kfp.graph import Node

_NAMED = "a"  # the name of an object that only the run knows


def task_config(container: Node, settings: Node) -> dict[str, Any]:
    """Return the variables and volumes of a task, as Kubernetes JSON.

    Args:
        container: The task's container.
        settings: What kfp.kubernetes set on the task, of the platform settings.
    """
    volumes = list(_volumes(settings))
    return {
        "env": [*(container.get("env") or []), *_variables(settings)],
        "volumes": [volume for volume, _ in volumes],
        "volumeMounts": [mount for _, mount in volumes],
    }


def _variables(settings: Node) -> Iterator[Mapping[str, Any]]:
    sources = (("secretAsEnv", "secret", "secretKeyRef"), ("configMapAsEnv", "configMap", "configMapKeyRef"))
    for field, kind, reference in sources:
        for source in settings.get(field) or []:
            for pair in source.get("keyToEnv") or []:
                key = {"name": _name(source, f"{kind}Name"), "key": pair.get(f"{kind}Key") or _NAMED}
                yield {"name": pair["envVar"], "valueFrom": {reference: key}}
    for source in settings.get("fieldPathAsEnv") or []:
        yield {"name": source["name"], "valueFrom": {"fieldRef": {"fieldPath": source["fieldPath"]}}}


def _volumes(settings: Node) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each volume with its mount."""
    sources = (
        ("pvcMount", "pvcName", "persistentVolumeClaim", "claimName"),
        ("secretAsVolume", "secretName", "secret", "secretName"),
        ("configMapAsVolume", "configMapName", "configMap", "name"),
    )
    for field, named, kind, key in sources:
        for i, source in enumerate(settings.get(field) or []):
            name = f"{field}-{i}"
            mount = {"name": name, "mountPath": source["mountPath"], "subPath": source.get("subPath", "")}
            yield {"name": name, kind: {key: _name(source, named)}}, mount


def _name(source: Node, field: str) -> str:
    constant = (source.get(f"{field}Parameter") or {}).get("runtimeValue", {}).get("constant")
    return str(source.get(field) or constant or _NAMED)
