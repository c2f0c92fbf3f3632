"""The job system `kubeflow`: TFJob, kubeflow.org/v1, of the training operator."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec import Duration
from tfsteps.systems.capabilities import Capability, done, native, refused
from tfsteps.systems.kubernetes.capabilities import of_pods, priority_by_class
from tfsteps.systems.plugin import kubernetes_plugin


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


CAPABILITIES: Mapping[str, Capability] = {
    **of_pods("kubeflow"),
    "chief": native("tfReplicaSpecs.Chief"),
    "worker": native("tfReplicaSpecs.Worker"),
    "ps": native("tfReplicaSpecs.PS"),
    "evaluator": native("tfReplicaSpecs.Evaluator; taken out of TF_CONFIG's cluster where it would hang the chief"),
    "restart_never": native("restartPolicy Never"),
    "restart_on_failure": native("restartPolicy OnFailure"),
    "restart_always": native("restartPolicy Always"),
    "restart_exit_code": native("restartPolicy ExitCode: codes from 128 on"),
    "backoff_limit": native("runPolicy.backoffLimit; tfsteps counts pods that the operator recreates"),
    "role_backoff_limit": refused("a TFJob has one limit for all roles", "Set `backoff_limit` of the job"),
    "success_chief": native("successPolicy, left empty"),
    "success_all_workers": native("successPolicy AllWorkers"),
    "tf_config": native("set by the operator; by tfsteps for a single replica"),
    "queue": native("the label of Kueue; runPolicy.schedulingPolicy.queue by `systems.kubeflow.queue_in`"),
    "priority": priority_by_class("kubeflow"),
    "gang": done("a PodGroup, and the scheduler that looks at it; with the operator's own gangs, too"),
    "deadlines": done("by the launcher, for the operator keeps activeDeadlineSeconds late or never"),
    "keep_for": native("runPolicy.ttlSecondsAfterFinished"),
    "on_end": native("runPolicy.cleanPodPolicy for what still runs; the launcher removes the rest"),
    "pause": native("runPolicy.suspend"),
    "created_suspended": native("`systems.kubeflow.suspend`"),
    "labels": native("on the TFJob and its pods"),
}


PLUGIN = kubernetes_plugin(
    "tfsteps.systems.kubeflow.tfjob:TFJob",
    name="kubeflow",
    options=KubeflowOptions,
    capabilities=CAPABILITIES,
    discovery_rank=10,
    readers={
        (f"kubeflow.org/{version}", "TFJob"): "tfsteps.systems.kubeflow.reader:read_tfjob"
        for version in ("v1", "v1beta2", "v1beta1", "v1alpha2")
    },
)
