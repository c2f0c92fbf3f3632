"""The objects of a cluster that the pods of a pipeline of Kubeflow Pipelines need."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfsteps.kube.resource import CLAIMS
from tfsteps.systems.kubernetes.preflight.references import CONFIG_MAPS, SECRETS, Reference

NAMESPACE = "kubeflow"
"""Namespace of runs in a single-user installation of Kubeflow Pipelines, whose API does not return one."""

_MOUNTS = (
    ("pvcMount", "pvcName", CLAIMS),
    ("secretAsVolume", "secretName", SECRETS),
    ("secretAsEnv", "secretName", SECRETS),
    ("configMapAsVolume", "configMapName", CONFIG_MAPS),
    ("configMapAsEnv", "configMapName", CONFIG_MAPS),
)


def pod_references(documents: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the objects that the pods of a compiled pipeline refer to by a constant or by an input of the pipeline.

    Args:
        documents: The pipeline, and its options for Kubernetes.
        parameters: The values of the pipeline's inputs, by name; inputs that are left out have their defaults.
    """
    pipeline, *_ = documents = list(documents)
    inputs = pipeline.get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    defaults = {name: definition["defaultValue"] for name, definition in inputs.items() if "defaultValue" in definition}
    values = {**defaults, **parameters}
    for document in documents:
        kubernetes = (document.get("platforms") or {}).get("kubernetes") or {}
        for executor in ((kubernetes.get("deploymentSpec") or {}).get("executors") or {}).values():
            for field, name, resource in _MOUNTS:
                named = (_name(mount, name, values) for mount in executor.get(field) or [] if not mount.get("optional"))
                yield from (Reference(resource, object_name) for object_name in named if object_name)


def _name(mount: Mapping[str, Any], field: str, values: Mapping[str, Any]) -> str:
    """Return the name of the object of a mount; empty = it is an output of another task."""
    source = mount.get(f"{field}Parameter") or {}
    constant = (source.get("runtimeValue") or {}).get("constant") or mount.get(field) or mount.get("constant")
    parameter = str(source.get("componentInputParameter") or "").removeprefix("pipelinechannel--")
    return str(constant or values.get(parameter) or "")
