"""The job system `jobs`: plain Kubernetes Jobs, one for each role. Needs no operator."""

from collections.abc import Mapping

import msgspec

from tfsteps.systems.capabilities import Capability, done, native
from tfsteps.systems.kubernetes.capabilities import NO_RESTART_ALWAYS, of_pods, priority_by_class
from tfsteps.systems.plugin import kubernetes_plugin


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


CAPABILITIES: Mapping[str, Capability] = {
    **of_pods("jobs"),
    "chief": done("a Job of its own"),
    "worker": native("an Indexed Job, an index for each worker"),
    "ps": done("an Indexed Job, ended by the launcher when the chief has succeeded"),
    "evaluator": done("a Job of its own, outside TF_CONFIG's cluster"),
    "restart_never": native("backoffLimit 0"),
    "restart_on_failure": native("the pods' restartPolicy"),
    "restart_always": NO_RESTART_ALWAYS,
    "restart_exit_code": native("podFailurePolicy: codes 1 to 127 end the Job"),
    "backoff_limit": native("each Job's backoffLimit; tfsteps counts over all of them"),
    "role_backoff_limit": native("the Job's backoffLimit"),
    "success_chief": native("the chief's Job, or successPolicy of the workers'"),
    "success_all_workers": done("the chief's Job and the workers' must both succeed"),
    "tf_config": done("made of the host names that a headless Service gives to the indexes"),
    "queue": native("the label of Kueue; a job of one role only"),
    "priority": priority_by_class("jobs"),
    "gang": done("a PodGroup, and the scheduler that looks at it"),
    "deadlines": done("by the launcher; `total` is each Job's activeDeadlineSeconds too"),
    "keep_for": native("ttlSecondsAfterFinished"),
    "on_end": done("by the launcher"),
    "pause": native("`suspend` of every Job"),
    "created_suspended": native("`systems.jobs.suspend`"),
    "adopt": done("by name and labels; parts that an interrupted launcher did not make are made"),
    "labels": native("on the Jobs, the Service and the pods"),
}


PLUGIN = kubernetes_plugin(
    "tfsteps.systems.jobs.job:IndexedJobs",
    name="jobs",
    options=JobsOptions,
    capabilities=CAPABILITIES,
    discovery_rank=90,
)
