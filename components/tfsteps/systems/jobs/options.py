"""What a job file may say below `systems: {jobs: ...}`."""

import msgspec


class JobsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of plain Kubernetes Jobs.

    Attributes:
        suspend: Create the job suspended; `tfsteps resume` starts it.
        priority_class: PriorityClass of the pods; a job with a `priority` must name one.
        gpu_label: Node label whose value is the model of the node's GPUs; `gpu_type` is looked for there.
    """

    suspend: bool = False
    priority_class: str | None = None
    gpu_label: str = "nvidia.com/gpu.product"


OPTIONS = JobsOptions
