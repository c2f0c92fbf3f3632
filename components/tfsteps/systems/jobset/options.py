"""What a job file may say below `systems: {jobset: ...}`."""

import msgspec


class JobSetOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a JobSet.

    Attributes:
        suspend: Create the job suspended; somebody else resumes it, such as Kueue.
        restart_together: Where `restart` restarts a chief or a worker, recreate the pods of all roles instead, and
            count that as one restart against `backoff_limit`, as MultiWorkerMirroredStrategy needs it: it takes no
            replica back.
        priority_class: PriorityClass of the pods.
        gpu_label: Node label whose value is the model of the node's GPUs; `gpu_type` is looked for there.
    """

    suspend: bool = False
    restart_together: bool = False
    priority_class: str | None = None
    gpu_label: str = "nvidia.com/gpu.product"


OPTIONS = JobSetOptions
