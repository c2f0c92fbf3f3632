"""What a job file may say below `systems: {kubeflow: ...}`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec import Duration


class KubeflowOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the training operator's TFJob.

    Attributes:
        suspend: Create the job suspended; somebody else resumes it, such as Kueue.
        queue_in: Where the job's `queue` goes: kueue = the label that Kueue looks at, which also suspends and resumes
            the job; scheduling_policy = runPolicy.schedulingPolicy, for Volcano.
        dynamic_workers: Workers may come and go while the job runs (enableDynamicWorker); not for
            MultiWorkerMirroredStrategy, which refuses the TF_CONFIG that this gives.
        min_available: Replicas that must be schedulable together before any starts. Empty = all; needs an operator
            that was started with gang scheduling.
        priority_class: PriorityClass of the whole job; a job with a `priority` must name one.
        schedule_timeout: Seconds that gang scheduling may take.
        gpu_label: Node label whose value is the model of the node's GPUs; `gpu_type` is looked for there.
        service_host: DNS suffix of a cluster whose operator adds one to host names; empty = none.
    """

    suspend: bool = False
    queue_in: Literal["kueue", "scheduling_policy"] = "kueue"
    dynamic_workers: bool = False
    min_available: Annotated[int, Meta(ge=1, le=10_000, description="a whole number from 1 to 10000")] | None = None
    priority_class: str | None = None
    schedule_timeout: Duration | None = None
    gpu_label: str = "nvidia.com/gpu.product"
    service_host: str = ""


OPTIONS = KubeflowOptions
