"""What a TFJob of the training operator can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native, refused, unused

CAPABILITIES: Mapping[str, Capability] = {
    "chief": native("tfReplicaSpecs.Chief"),
    "worker": native("tfReplicaSpecs.Worker"),
    "ps": native("tfReplicaSpecs.PS"),
    "evaluator": native("tfReplicaSpecs.Evaluator; taken out of TF_CONFIG's cluster where it would hang the chief"),
    "role_templates": native("each replica spec has its own template"),
    "restart_never": native("restartPolicy Never"),
    "restart_on_failure": native("restartPolicy OnFailure"),
    "restart_always": native("restartPolicy Always"),
    "restart_exit_code": native("restartPolicy ExitCode: codes from 128 on"),
    "backoff_limit": native("runPolicy.backoffLimit; pods that are made anew are counted by tfsteps"),
    "role_backoff_limit": refused("cannot be told apart from the other roles'"),
    "success_chief": native("successPolicy, left empty"),
    "success_all_workers": native("successPolicy AllWorkers"),
    "tf_config": native("set by the operator, if there is more than one replica"),
    "env_sources": native("the pods' env"),
    "volumes": native("the pods' volumes"),
    "shared_memory": done("a volume in memory at /dev/shm"),
    "placement": native("the pods' nodeSelector and tolerations"),
    "pod_patch": native("the pod template"),
    "gpu": native("the resource nvidia.com/gpu, or `gpu_resource`"),
    "gpu_type": native("a node selector by the label `systems.kubeflow.gpu_label`"),
    "queue": native("the label of Kueue; runPolicy.schedulingPolicy.queue by `systems.kubeflow.queue_in`"),
    "priority": refused("a PriorityClass by name"),
    "gang": done("a PodGroup, and the scheduler that looks at it; with the operator's own gangs, too"),
    "deadlines": done("by the launcher, for the operator keeps activeDeadlineSeconds late or never"),
    "keep_for": native("runPolicy.ttlSecondsAfterFinished"),
    "on_end": native("runPolicy.cleanPodPolicy for what still runs; the launcher removes the rest"),
    "on_evicted": done("by a Kubernetes Job that owns it until the time is over"),
    "pause": native("runPolicy.suspend"),
    "created_suspended": native("`systems.kubeflow.suspend`"),
    "hold": done("the command is replaced by a sleep"),
    "live_logs": done("from the pods"),
    "tensorboard": unused("none is started on a cluster"),
    "adopt": done("by name and labels"),
    "labels": native("on the TFJob and its pods"),
}
