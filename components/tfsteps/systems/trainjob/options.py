"""What a job file may say below `systems: {trainjob: ...}`."""

import msgspec


class TrainJobOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of Kubeflow Trainer's TrainJob.

    Attributes:
        suspend: Create the job suspended; somebody else resumes it, such as Kueue.
        runtime: ClusterTrainingRuntime in place of the one of manifests/trainjob-runtimes that fits the job: a copy of
            that one with what a TrainJob has no field for.
        gpu_label: Node label whose value is the model of the node's GPUs; `gpu_type` is looked for there.
    """

    suspend: bool = False
    runtime: str | None = None
    gpu_label: str = "nvidia.com/gpu.product"


OPTIONS = TrainJobOptions
