"""Checks before a submission whether the objects that a pipeline's pods refer to exist; else a step stays Pending."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.systems.kubernetes.preflight.references import (
    ACCOUNTS,
    CLAIMS,
    CONFIG_MAPS,
    SECRETS,
    Reference,
    of_container,
    of_volume,
)

KFP_NAMESPACE = "kubeflow"
"""Namespace of runs in a single-user installation of Kubeflow Pipelines, whose API does not return one."""

_MOUNTS = (
    ("pvcMount", "pvcName", CLAIMS),
    ("secretAsVolume", "secretName", SECRETS),
    ("secretAsEnv", "secretName", SECRETS),
    ("configMapAsVolume", "configMapName", CONFIG_MAPS),
    ("configMapAsEnv", "configMapName", CONFIG_MAPS),
)


def missing(api: Api, namespace: str, references: Iterable[Reference]) -> Iterator[str]:
    """Yield a warning for each object that does not exist in a namespace. Objects that cannot be read are skipped.

    This is not an error: a step of the pipeline may create the object, and pods wait until it exists.

    Raises:
        ApiError: The cluster does not answer.
    """
    for resource, name in dict.fromkeys((reference.resource, reference.name) for reference in references):
        try:
            api.get(resource, namespace, name, once=True)
        except ApiError as error:
            if error.missing:
                effect = "pods that run as it are refused" if resource == ACCOUNTS else "steps that use it stay Pending"
                where = f"{resource.kind} {namespace}/{name} is missing on {api.access.name}"
                yield f"{where}: {effect} until it is created; create it, or correct its name"
            elif error.unavailable:
                raise


def of_argo(manifest: Mapping[str, Any]) -> Iterator[Reference]:
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


def of_kfp(documents: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any]) -> Iterator[Reference]:
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
