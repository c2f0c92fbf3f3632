"""The objects that must exist before a job's pods can start. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.kube.resource import CLAIMS, Resource
from tfsteps.systems.kubernetes.job_kind import RoleSpec

SECRETS = Resource("v1", "secrets", "Secret")
CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount")
_PRIORITIES = Resource("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass")
_QUEUES, _OLDER_QUEUES = (
    Resource(f"kueue.x-k8s.io/{version}", "localqueues", "LocalQueue") for version in ("v1beta2", "v1beta1")
)
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


class Reference(msgspec.Struct, frozen=True):
    """An object that must exist.

    Attributes:
        resource: Its kind, in the newest version of its API.
        name: Its name.
        key: What a Secret or ConfigMap must hold; empty = anything.
        everywhere: Whether it is cluster-scoped.
        older: The kind in the versions before, the newest first.
    """

    resource: Resource
    name: str
    key: str = ""
    everywhere: bool = False
    older: tuple[Resource, ...] = ()


def references(item: Mapping[str, Any], roles: Iterable[RoleSpec]) -> list[Reference]:
    """Return the objects that a job object and its pods refer to by name, each once, without optional ones.

    Pull secrets are left out too: the kubelet continues without one, and the image may need none.
    """
    result = list(_of_job(item))
    for role in roles:
        spec = role.template["spec"]
        if account := spec.get("serviceAccountName"):
            result.append(Reference(ACCOUNTS, account))
        if priority := spec.get("priorityClassName"):
            result.append(Reference(_PRIORITIES, priority, everywhere=True))
        result += [ref for volume in spec.get("volumes") or [] for ref in of_volume(volume)]
        containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
        result += [ref for container in containers for ref in of_container(container)]
    return [ref for ref in dict.fromkeys(result) if ref.name]


def _of_job(item: Mapping[str, Any]) -> Iterator[Reference]:
    scheduling = item["spec"].get("runPolicy", {}).get("schedulingPolicy") or {}
    if priority := scheduling.get("priorityClass"):
        yield Reference(_PRIORITIES, priority, everywhere=True)
    if queue := item["metadata"].get("labels", {}).get(QUEUE_LABEL):
        yield Reference(_QUEUES, queue, older=(_OLDER_QUEUES,))


def of_volume(volume: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the objects that a volume of a pod refers to."""
    if claim := volume.get("persistentVolumeClaim"):
        yield Reference(CLAIMS, claim.get("claimName", ""))
    if secret := volume.get("secret"):
        yield from _of_files(SECRETS, {**secret, "name": secret.get("secretName", "")})
    if config_map := volume.get("configMap"):
        yield from _of_files(CONFIG_MAPS, config_map)
    for source in (volume.get("projected") or {}).get("sources") or []:
        yield from _of_files(SECRETS, source.get("secret"))
        yield from _of_files(CONFIG_MAPS, source.get("configMap"))


def _of_files(resource: Resource, source: Mapping[str, Any] | None) -> Iterator[Reference]:
    if source and not source.get("optional"):
        keys = [item.get("key", "") for item in source.get("items") or []]
        yield from (Reference(resource, source.get("name", ""), key) for key in keys or [""])


def of_container(container: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the objects that the variables of a container refer to."""
    whole = (("secretRef", SECRETS), ("configMapRef", CONFIG_MAPS))
    one = (("secretKeyRef", SECRETS), ("configMapKeyRef", CONFIG_MAPS))
    sources = [(source, whole) for source in container.get("envFrom") or []]
    sources += [(variable.get("valueFrom") or {}, one) for variable in container.get("env") or []]
    for source, kinds in sources:
        for field, resource in kinds:
            selector = source.get(field)
            if selector and not selector.get("optional"):
                yield Reference(resource, selector.get("name", ""), selector.get("key", ""))
