"""What a job's pods need to be there before they can start. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.cluster.api import Resource
from tfsteps.systems.kubernetes.kind import RoleSpec

_SECRETS = Resource("v1", "secrets", "Secret")
_CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
_CLAIMS = Resource("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
_ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount")
_PRIORITIES = Resource("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass")
_QUEUES = Resource("kueue.x-k8s.io/v1beta1", "localqueues", "LocalQueue")
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


class Reference(msgspec.Struct, frozen=True):
    """An object that must be there.

    Attributes:
        resource: What it is.
        name: Its name.
        key: What a Secret or ConfigMap must hold; empty = anything.
        everywhere: Whether it belongs to no namespace.
    """

    resource: Resource
    name: str
    key: str = ""
    everywhere: bool = False


def references(item: Mapping[str, Any], roles: Iterable[RoleSpec]) -> list[Reference]:
    """Return what a job object and its pods refer to by name, each once; what they call optional is left out.

    Pull secrets are left out too: the kubelet goes on without one, and its image may need none.
    """
    found = list(_of_job(item))
    for each in roles:
        spec = each.template["spec"]
        if account := spec.get("serviceAccountName"):
            found.append(Reference(_ACCOUNTS, account))
        if priority := spec.get("priorityClassName"):
            found.append(Reference(_PRIORITIES, priority, everywhere=True))
        found += [ref for volume in spec.get("volumes") or [] for ref in _of_volume(volume)]
        containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
        found += [ref for container in containers for ref in _of_container(container)]
    return [each for each in dict.fromkeys(found) if each.name]


def _of_job(item: Mapping[str, Any]) -> Iterator[Reference]:
    scheduling = item["spec"].get("runPolicy", {}).get("schedulingPolicy") or {}
    if priority := scheduling.get("priorityClass"):
        yield Reference(_PRIORITIES, priority, everywhere=True)
    if queue := item["metadata"].get("labels", {}).get(QUEUE_LABEL):
        yield Reference(_QUEUES, queue)


def _of_volume(volume: Mapping[str, Any]) -> Iterator[Reference]:
    if claim := volume.get("persistentVolumeClaim"):
        yield Reference(_CLAIMS, claim.get("claimName", ""))
    if secret := volume.get("secret"):
        yield from _of_files(_SECRETS, {**secret, "name": secret.get("secretName", "")})
    if config_map := volume.get("configMap"):
        yield from _of_files(_CONFIG_MAPS, config_map)
    for source in (volume.get("projected") or {}).get("sources") or []:
        yield from _of_files(_SECRETS, source.get("secret"))
        yield from _of_files(_CONFIG_MAPS, source.get("configMap"))


def _of_files(resource: Resource, source: Mapping[str, Any] | None) -> Iterator[Reference]:
    if source and not source.get("optional"):
        keys = [each.get("key", "") for each in source.get("items") or []]
        yield from (Reference(resource, source.get("name", ""), key) for key in keys or [""])


def _of_container(container: Mapping[str, Any]) -> Iterator[Reference]:
    whole = (("secretRef", _SECRETS), ("configMapRef", _CONFIG_MAPS))
    one = (("secretKeyRef", _SECRETS), ("configMapKeyRef", _CONFIG_MAPS))
    sources = [(each, whole) for each in container.get("envFrom") or []]
    sources += [(each.get("valueFrom") or {}, one) for each in container.get("env") or []]
    for source, kinds in sources:
        for field, resource in kinds:
            wanted = source.get(field)
            if wanted and not wanted.get("optional"):
                yield Reference(resource, wanted.get("name", ""), wanted.get("key", ""))
