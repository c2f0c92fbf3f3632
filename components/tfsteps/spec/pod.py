"""The description of a replica's pod: variables, resources, volumes, tolerations."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec.fields import (
    Absolute,
    DataKey,
    EnvName,
    Filled,
    Fraction,
    GpuCount,
    MountPath,
    ObjectName,
    PodField,
    Relative,
    ResourceName,
    Text,
)
from tfsteps.spec.units import Cpu, CpuRequest, Delay, Memory, MemoryRequest


class _PodStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class EnvSource(_PodStruct, frozen=True):
    """Source of an environment variable's value. Set exactly one of `secret`, `config_map` and `field`.

    Attributes:
        secret: Name of a Secret. Requires `key`.
        config_map: Name of a ConfigMap. Requires `key`.
        key: Key in the Secret or ConfigMap.
        field: Path of a pod field, such as `metadata.name`.
    """

    secret: ObjectName | None = None
    config_map: ObjectName | None = None
    key: DataKey | None = None
    field: PodField | None = None


Env = Annotated[dict[EnvName, Text | EnvSource], Meta(examples=[{"BATCH": 64}])]


class Limits(_PodStruct, frozen=True):
    """Maximum resources of one replica. Empty = equal to the requests.

    Attributes:
        cpu: CPU cores.
        memory: Bytes.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None


class Resources(_PodStruct, frozen=True):
    """Compute resources of one replica. What is left out gets the default of the job system.

    Attributes:
        cpu: CPU cores requested. `2~4` sets `limits.cpu` as well.
        memory: Bytes requested. `4Gi~8Gi` sets `limits.memory` as well.
        gpu: Number of whole GPUs. Short forms set the next five fields: `2(T4)` the type, `2(amd,MI300)` vendor and
            type, `0.5` a fraction, `-1` all GPUs.
        gpu_fraction: Share of one GPU. The platform's settings must say which resource it is.
        all_gpus: Let the replica use all GPUs of its node, whatever other pods use.
        gpu_vendor: Vendor of the GPU, by its name in the platform's settings, which say which resource it is.
        gpu_resource: Name of the cluster's GPU resource. Empty = the value of TFSTEPS_GPU_RESOURCE, otherwise
            nvidia.com/gpu.
        gpu_type: Model of the GPU, such as T4. Each job system maps it to its own node selector.
        shared_memory: Size of /dev/shm in bytes. It counts against the memory limit.
        limits: Limits, if they differ from the requests.
    """

    cpu: CpuRequest | None = None
    memory: MemoryRequest | None = None
    gpu: GpuCount = 0
    gpu_fraction: Fraction | None = None
    all_gpus: bool = False
    gpu_vendor: Filled | None = None
    gpu_resource: ResourceName | None = None
    gpu_type: Filled | None = None
    shared_memory: Memory | None = None
    limits: Limits = Limits()

    @property
    def uses_gpus(self) -> bool:
        """Whether a replica uses GPUs, of whatever number."""
        return bool(self.gpu or self.gpu_fraction or self.all_gpus)

    @property
    def memory_limit(self) -> int | None:
        """Maximum number of bytes of one replica; None = no limit."""
        return self.limits.memory or self.memory

    @property
    def cpu_limit(self) -> float | None:
        """Maximum number of cores of one replica; None = no limit."""
        return self.limits.cpu or self.cpu


class Nfs(_PodStruct, frozen=True):
    """An NFS export.

    Attributes:
        server: Host name or address.
        path: Exported path.
    """

    server: Filled
    path: Absolute


class Volume(_PodStruct, frozen=True):
    """A volume and its mount path. Set exactly one source, or write a short form such as `data(pvc-share):/mnt`.

    Attributes:
        mount: Path in the container at which the volume is mounted.
        pvc: Name of a PersistentVolumeClaim.
        personal: Mount only the folder of the job's creator, at a folder of this name below `mount`. The creator is
            the value of TFSTEPS_CREATOR where the job is launched, otherwise of KFJ_CREATOR. Requires `pvc`.
        secret: Name of a Secret.
        config_map: Name of a ConfigMap.
        host_path: Folder on the node.
        nfs: An NFS export.
        empty_dir: Size in bytes of a scratch folder, which is deleted with the pod.
        in_memory: Keep the scratch folder in memory. Requires `empty_dir`.
        sub_path: Folder inside the volume. Empty = the whole volume.
        read_only: Mount the volume read-only.
    """

    mount: MountPath
    pvc: ObjectName | None = None
    personal: bool = False
    secret: ObjectName | None = None
    config_map: ObjectName | None = None
    host_path: Absolute | None = None
    nfs: Nfs | None = None
    empty_dir: Memory | None = None
    in_memory: bool = False
    sub_path: Relative | None = None
    read_only: bool = False


class Toleration(_PodStruct, frozen=True):
    """A Kubernetes toleration.

    Attributes:
        key: Taint key. Empty, with operator Exists, matches every taint.
        operator: Equal compares `value`; Exists takes no value.
        value: Taint value.
        effect: Taint effect. Empty matches every effect.
        seconds: Seconds that a NoExecute taint is tolerated. 0 = not at all; empty = without a limit.
    """

    key: Filled | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: Text | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    seconds: Delay | None = None


VOLUME_PATTERN = (
    r"^[^()（）]+[(（]\s*(pvc|pvc-share|storage|hostpath|configmap|secret|nfs|memory)\s*[)）]\s*[:：]\s*/\S+$"  # noqa: RUF001
)
_VOLUME = {"pvc": "data", "mount": "/data"}
_TOLERATION = {"key": "gpu", "operator": "Exists"}
Volumes = Annotated[
    tuple[Annotated[Volume, Meta(examples=[_VOLUME], extra_json_schema={"short_form": VOLUME_PATTERN})], ...],
    Meta(examples=[[_VOLUME]]),
]
Tolerations = Annotated[tuple[Annotated[Toleration, Meta(examples=[_TOLERATION])], ...], Meta(examples=[[_TOLERATION]])]
Labels = Annotated[dict[str, Text], Meta(examples=[{"team": "vision"}])]
