"""What a replica's pod is made of: variables, resources, volumes, tolerations."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec.fields import (
    Absolute,
    DataKey,
    EnvName,
    Filled,
    GpuCount,
    MountPath,
    ObjectName,
    PodField,
    Relative,
    ResourceName,
    Text,
)
from tfsteps.spec.units import Cpu, Delay, Memory


class _Base(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class EnvSource(_Base, frozen=True):
    """A variable whose value comes from the cluster. Exactly one source.

    Attributes:
        secret: Name of a Secret; with `key`.
        config_map: Name of a ConfigMap; with `key`.
        key: The key in the Secret or ConfigMap.
        field: Path of a pod field, e.g. `metadata.name`.
    """

    secret: ObjectName | None = None
    config_map: ObjectName | None = None
    key: DataKey | None = None
    field: PodField | None = None


Env = Annotated[dict[EnvName, Text | EnvSource], Meta(examples=[{"BATCH": 64}])]


class Limits(_Base, frozen=True):
    """What a replica may use at the most. Left out: the same as requested.

    Attributes:
        cpu: Cores.
        memory: Bytes.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None


class Resources(_Base, frozen=True):
    """What one replica needs. Everything left out is up to the job system.

    Attributes:
        cpu: Cores requested.
        memory: Bytes requested.
        gpu: Whole GPUs.
        gpu_resource: What the cluster counts GPUs as; empty = what TFSTEPS_GPU_RESOURCE says, else nvidia.com/gpu.
        gpu_type: Model of the GPU, e.g. T4; each job system maps it to its own node selector.
        shared_memory: Size of /dev/shm in bytes; counts against the memory limit.
        limits: Upper bounds, where they differ from the requests.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None
    gpu: GpuCount = 0
    gpu_resource: ResourceName | None = None
    gpu_type: Filled | None = None
    shared_memory: Memory | None = None
    limits: Limits = Limits()

    @property
    def memory_limit(self) -> int | None:
        """Bytes that a replica may use; None = no limit."""
        return self.limits.memory or self.memory

    @property
    def cpu_limit(self) -> float | None:
        """Cores that a replica may use; None = no limit."""
        return self.limits.cpu or self.cpu


class Nfs(_Base, frozen=True):
    """An NFS export.

    Attributes:
        server: Host name or address.
        path: Exported path.
    """

    server: Filled
    path: Absolute


class Volume(_Base, frozen=True):
    """One volume, mounted at one path. Exactly one source.

    Attributes:
        mount: Where the replica sees it.
        pvc: Name of a PersistentVolumeClaim.
        secret: Name of a Secret.
        config_map: Name of a ConfigMap.
        host_path: Folder of the node.
        nfs: An NFS export.
        empty_dir: Size of a scratch folder that ends with the pod, in bytes.
        in_memory: The scratch folder lives in memory.
        sub_path: Folder inside the volume; empty = all of it.
        read_only: The replica cannot write to it.
    """

    mount: MountPath
    pvc: ObjectName | None = None
    secret: ObjectName | None = None
    config_map: ObjectName | None = None
    host_path: Absolute | None = None
    nfs: Nfs | None = None
    empty_dir: Memory | None = None
    in_memory: bool = False
    sub_path: Relative | None = None
    read_only: bool = False


class Toleration(_Base, frozen=True):
    """A Kubernetes toleration.

    Attributes:
        key: Taint key; empty with operator Exists = every taint.
        operator: Equal compares `value`; Exists takes none.
        value: Taint value.
        effect: Empty = every effect.
        seconds: How long a NoExecute taint is tolerated, 0 = not at all; empty = for ever.
    """

    key: Filled | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: Text | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    seconds: Delay | None = None


_VOLUME = {"pvc": "data", "mount": "/data"}
_TOLERATION = {"key": "gpu", "operator": "Exists"}
Volumes = Annotated[tuple[Annotated[Volume, Meta(examples=[_VOLUME])], ...], Meta(examples=[[_VOLUME]])]
Tolerations = Annotated[tuple[Annotated[Toleration, Meta(examples=[_TOLERATION])], ...], Meta(examples=[[_TOLERATION]])]
Labels = Annotated[dict[str, Text], Meta(examples=[{"team": "vision"}])]
