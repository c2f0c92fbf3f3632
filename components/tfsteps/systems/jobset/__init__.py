"""The job system `jobset`: JobSet, jobset.x-k8s.io/v1alpha2, of kubernetes-sigs/jobset."""

from collections.abc import Mapping

import msgspec

from tfsteps.systems.capabilities import Capability, done, native
from tfsteps.systems.kubernetes.capabilities import NO_RESTART_ALWAYS, of_pods, priority_by_class
from tfsteps.systems.plugin import kubernetes_plugin


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


CAPABILITIES: Mapping[str, Capability] = {
    **of_pods("jobset"),
    "chief": native("a replicated job"),
    "worker": native("a replicated job, an index for each worker"),
    "ps": native("a replicated job; ended with the decisive one"),
    "evaluator": native("a replicated job, outside TF_CONFIG's cluster"),
    "restart_never": native("backoffLimit 0"),
    "restart_on_failure": native("the pods' restartPolicy; all replicas together by `systems.jobset.restart_together`"),
    "restart_always": NO_RESTART_ALWAYS,
    "restart_exit_code": native("podFailurePolicy: codes 1 to 127 end the Job"),
    "backoff_limit": native("each Job's backoffLimit; tfsteps counts over all of them"),
    "role_backoff_limit": native("the Job's backoffLimit"),
    "success_chief": native("successPolicy of the JobSet, and of the workers' Job where worker 0 decides"),
    "success_all_workers": native("successPolicy of the JobSet"),
    "tf_config": done("made of the host names that the JobSet's headless Service gives"),
    "queue": native("the label of Kueue"),
    "priority": priority_by_class("jobset"),
    "gang": done("a PodGroup, which the scheduler of `gang.scheduler` looks at"),
    "deadlines": done("by the launcher; `total` is each Job's activeDeadlineSeconds, too"),
    "keep_for": native("ttlSecondsAfterFinished"),
    "on_end": native("the controller ends what still runs; the launcher removes the rest"),
    "pause": native("spec.suspend"),
    "created_suspended": native("`systems.jobset.suspend`"),
    "labels": native("on the JobSet, its Jobs and their pods"),
}


PLUGIN = kubernetes_plugin(
    "tfsteps.systems.jobset.jobset:JobSet",
    name="jobset",
    options=JobSetOptions,
    capabilities=CAPABILITIES,
    discovery_rank=30,
    readers={("jobset.x-k8s.io/v1alpha2", "JobSet"): "tfsteps.systems.jobset.reader:read_jobset"},
)
