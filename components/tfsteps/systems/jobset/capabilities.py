"""What a JobSet can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native, refused, unused

CAPABILITIES: Mapping[str, Capability] = {
    "chief": native("a replicated job"),
    "worker": native("a replicated job, an index for each worker"),
    "ps": native("a replicated job; ended with the deciding one"),
    "evaluator": native("a replicated job, outside TF_CONFIG's cluster"),
    "role_templates": native("each replicated job has its own template"),
    "restart_never": native("backoffLimit 0"),
    "restart_on_failure": native("the pods' restartPolicy"),
    "restart_always": refused("the pods of a Kubernetes Job end with their program"),
    "restart_exit_code": native("podFailurePolicy: codes 1 to 127 end the Job"),
    "backoff_limit": native("each Job's backoffLimit; tfsteps counts over all of them"),
    "role_backoff_limit": native("the Job's backoffLimit"),
    "success_chief": native("successPolicy of the JobSet, and of the workers' Job where worker 0 decides"),
    "success_all_workers": native("successPolicy of the JobSet"),
    "tf_config": done("made of the host names that the JobSet's headless Service gives"),
    "env_sources": native("the pods' env"),
    "volumes": native("the pods' volumes"),
    "shared_memory": done("a volume in memory at /dev/shm"),
    "placement": native("the pods' nodeSelector and tolerations"),
    "pod_patch": native("the pod template"),
    "gpu": native("the resource nvidia.com/gpu, or `gpu_resource`"),
    "gpu_type": native("a node selector by the label `systems.jobset.gpu_label`"),
    "queue": native("the label of Kueue"),
    "priority": refused("a PriorityClass by name"),
    "gang": done("a PodGroup, which the scheduler of `gang.scheduler` looks at"),
    "deadlines": done("by the launcher; `total` is each Job's activeDeadlineSeconds, too"),
    "keep_for": native("ttlSecondsAfterFinished"),
    "on_end": native("the controller ends what still runs; the launcher removes the rest"),
    "on_evicted": done("by a Kubernetes Job that owns it until the time is over"),
    "pause": native("spec.suspend"),
    "created_suspended": native("`systems.jobset.suspend`"),
    "hold": done("the command is replaced by a sleep"),
    "live_logs": done("from the pods"),
    "tensorboard": unused("none is started on a cluster"),
    "adopt": done("by name and labels"),
    "labels": native("on the JobSet, its Jobs and their pods"),
}
