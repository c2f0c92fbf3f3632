"""What plain Kubernetes Jobs can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native, refused, unused

CAPABILITIES: Mapping[str, Capability] = {
    "chief": done("a Job of its own"),
    "worker": native("an Indexed Job, an index for each worker"),
    "ps": done("an Indexed Job, ended by the launcher when the chief has succeeded"),
    "evaluator": done("a Job of its own, outside TF_CONFIG's cluster"),
    "role_templates": native("each role's Job has its own template"),
    "restart_never": native("backoffLimit 0"),
    "restart_on_failure": native("the pods' restartPolicy"),
    "restart_always": refused("the pods of a Kubernetes Job end with their program"),
    "restart_exit_code": native("podFailurePolicy: codes 1 to 127 end the Job"),
    "backoff_limit": native("each Job's backoffLimit; tfsteps counts over all of them"),
    "role_backoff_limit": native("the Job's backoffLimit"),
    "success_chief": native("the chief's Job, or successPolicy of the workers'"),
    "success_all_workers": done("the chief's Job and the workers' must both succeed"),
    "tf_config": done("made of the host names that a headless Service gives to the indexes"),
    "env_sources": native("the pods' env"),
    "volumes": native("the pods' volumes"),
    "shared_memory": done("a volume in memory at /dev/shm"),
    "placement": native("the pods' nodeSelector and tolerations"),
    "pod_patch": native("the pod template"),
    "gpu": native("the resource nvidia.com/gpu, or `gpu_resource`"),
    "gpu_type": native("a node selector by the label `systems.jobs.gpu_label`"),
    "queue": native("the label of Kueue; a job of one role only"),
    "priority": refused("a PriorityClass by name"),
    "gang": done("a PodGroup, and the scheduler that looks at it"),
    "deadlines": done("by the launcher; `total` is each Job's activeDeadlineSeconds too"),
    "keep_for": native("ttlSecondsAfterFinished"),
    "on_end": done("by the launcher"),
    "on_evicted": done("by a Kubernetes Job that owns it until the time is over"),
    "pause": native("`suspend` of every Job"),
    "created_suspended": native("`systems.jobs.suspend`"),
    "hold": done("the command is replaced by a sleep"),
    "live_logs": done("from the pods"),
    "tensorboard": unused("none is started on a cluster"),
    "adopt": done("by name and labels; parts that an interrupted launcher did not make are made"),
    "labels": native("on the Jobs, the Service and the pods"),
}
