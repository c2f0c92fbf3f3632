"""What a job file may say below `systems: {jobset: ...}`."""

import msgspec

from tfsteps.spec.fields import Limit


class JobSetOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a JobSet.

    Attributes:
        suspend: Create the job suspended; somebody else resumes it, such as Kueue.
        max_restarts: How often all replicas together are started again when a role has failed for good, as
            MultiWorkerMirroredStrategy needs it: it takes no replica back. Each counts for every replica against
            `backoff_limit`.
        priority_class: PriorityClass of the pods.
        gpu_label: Node label whose value is the model of the node's GPUs; `gpu_type` is looked for there.
    """

    suspend: bool = False
    max_restarts: Limit = 0
    priority_class: str | None = None
    gpu_label: str = "nvidia.com/gpu.product"


OPTIONS = JobSetOptions
