"""The output folders of jobs on a cluster: where they are, and on which mount.

They are created before a job where that is possible. Other pods that read a folder mount its volume as a replica does.
"""

import contextlib
import os
import pathlib
import stat
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from tfsteps.runs.identity import Identity, label_value
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import TrainingJob, is_uri

NOWHERE = "/tmp/tfsteps"  # noqa: S108
"""Output folder of jobs without a shared volume: in each replica's own file system, and lost with it."""

_ROOT = 0
SHARED = ("persistentVolumeClaim", "nfs")
"""The sources of the volumes that a job description can share between pods."""


def output_paths(job: TrainingJob, identity: Identity, base_dir: pathlib.Path) -> OutputPaths:
    """Return the folders of an attempt, as its replicas see them.

    A task's folder is named as its label: an Argo node may be called `train(0:rate:0.1)` or `main[0].train`, and
    TensorFlow reads such brackets as patterns.
    """
    folder = output_template(job).format(name=job.name, run_id=identity.run, task=label_value(identity.task))
    return OutputPaths.below(folder, job, base_dir, kept=bool(job.output_dir or lasting_folder(job)))


def output_template(job: TrainingJob) -> str:
    """Return the job's `output_dir`, with its fields; by default a folder on its first lasting volume."""
    return job.output_dir or f"{lasting_folder(job) or NOWHERE}/{{run_id}}/{{task}}"


def lasting_folder(job: TrainingJob) -> str:
    """Return a folder, with its braces doubled, on the first claim or NFS export that all replicas may write to."""
    writable = (volume.mount for volume in job.volumes if (volume.pvc or volume.nfs) and not volume.read_only)
    mount = next(writable, "").rstrip("/").replace("{", "{{").replace("}", "}}")
    return f"{mount}/tfsteps" if mount else ""


def make_folders(job: TrainingJob, paths: OutputPaths) -> None:
    """Create the folders of `paths` on volumes of the job that this process mounts at the same path.

    A new folder has the write permissions of its parent. If that is not possible, the program creates the folder.
    """
    mounts = [volume.mount.rstrip("/") for volume in job.volumes if (volume.pvc or volume.nfs) and not volume.read_only]
    for folder in (paths.output, paths.model, paths.logs):
        if paths.kept and not is_uri(folder):
            with contextlib.suppress(OSError):
                if any(f"{folder}/".startswith(f"{mount}/") and os.path.ismount(mount) for mount in mounts):
                    _make(pathlib.Path(folder))


def _make(folder: pathlib.Path) -> None:
    """Create a folder and its parents. OSError if that fails, or if the parent's owner could not write to it."""
    if folder.is_dir():
        return
    _make(folder.parent)
    above = folder.parent.stat()
    if not above.st_mode & stat.S_IWOTH and above.st_uid not in (os.geteuid(), _ROOT):
        raise PermissionError("its owner could not write to a folder of ours")
    folder.mkdir()
    try:
        os.chown(folder, -1, above.st_gid)
        folder.chmod(above.st_mode & (0o777 | stat.S_ISGID))  # without the sticky bit: a program may replace a folder
    except OSError:
        folder.rmdir()
        raise


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
