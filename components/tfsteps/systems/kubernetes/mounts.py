"""The mount of a replica that contains a folder, for other pods that read the folder. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

SHARED = ("persistentVolumeClaim", "nfs")
"""The sources of the volumes that a job description can share between pods."""


class Mount(msgspec.Struct, frozen=True):
    """The mount that contains a folder.

    Attributes:
        volume: The pod's volume, with its source.
        mount: Its mount in the container.
        spec: The pod's spec.
        container: The container's spec.
    """

    volume: Mapping[str, Any]
    mount: Mapping[str, Any]
    spec: Mapping[str, Any]
    container: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The mount path."""
        return str(self.mount["mountPath"])

    def __str__(self) -> str:
        """Return the volume and its mount path: `claim data at /data`."""
        claim, nfs = (self.volume.get(source) for source in SHARED)
        what = f"claim {claim['claimName']}" if claim else f"NFS export {nfs['server']}:{nfs['path']}" if nfs else ""
        return f"{what} at {self.path}"


def find_mount(specs: Iterable[Mapping[str, Any]], folder: str, sources: Collection[str] = SHARED) -> Mount | None:
    """Return the mount of the first of `specs` that has the folder on a volume of other pods too; None = none.

    Args:
        specs: Pod specs.
        folder: An absolute path.
        sources: The accepted sources of the volume, as the fields of a pod's `volumes` are called.
    """
    for spec in specs:
        volumes = {volume["name"]: volume for volume in spec.get("volumes") or []}
        for container in spec["containers"]:
            mounts = [mount for mount in container.get("volumeMounts") or [] if _covers(mount["mountPath"], folder)]
            mount = max(mounts, key=lambda mount: len(mount["mountPath"]), default=None)
            volume = volumes.get(mount["name"]) if mount else None
            if mount and volume and any(source in volume for source in sources):
                return Mount(volume, mount, spec, container)
    return None


def user_of(spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user of a container as fields of a security context; empty = the image's user."""
    context = {**(spec.get("securityContext") or {}), **(container.get("securityContext") or {})}
    return {key: context[key] for key in ("runAsUser", "runAsGroup", "seLinuxOptions") if key in context}


def prefer_node(node: str) -> dict[str, Any]:
    """Return a preference for the node: a volume that only one node can attach is attached there."""
    if not node:
        return {}
    there = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": there}]}
    return {"affinity": {"nodeAffinity": preferred}}


def _covers(path: str, folder: str) -> bool:
    return f"{folder.rstrip('/')}/".startswith(f"{path.rstrip('/')}/")
