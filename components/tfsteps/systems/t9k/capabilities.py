"""What a TensorFlowTrainingJob of T9k can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native, refused

CAPABILITIES: Mapping[str, Capability] = {
    "chief": native("replicaSpecs with type chief"),
    "worker": native("replicaSpecs with type worker"),
    "ps": native("replicaSpecs with type ps"),
    "evaluator": native("replicaSpecs with type evaluator"),
    "role_templates": native("each replica spec has its own template"),
    "restart_never": native("restartPolicy Never"),
    "restart_on_failure": native("restartPolicy OnFailure"),
    "restart_always": native("restartPolicy Always"),
    "restart_exit_code": native("restartPolicy ExitCode: codes 130, 137, 138 and 143 only, and a warning says so"),
    "backoff_limit": native("runPolicy.backoffLimit, shared by all replicas"),
    "role_backoff_limit": refused("one limit for the restarts of all replicas"),
    "success_chief": native("chief 0, or worker 0, decides"),
    "success_all_workers": refused("alone decides"),
    "tf_config": native("set by the platform"),
    "env_sources": native("the pods' env"),
    "volumes": native("the pods' volumes"),
    "shared_memory": done("a volume in memory at /dev/shm"),
    "placement": native("the pods' nodeSelector and tolerations"),
    "pod_patch": native("the pod template"),
    "gpu": native("the resource nvidia.com/gpu, or `gpu_resource`"),
    "gpu_type": native("a node selector by the label `systems.t9k.gpu_label`"),
    "queue": native("scheduler.t9kScheduler.queue"),
    "priority": native("scheduler.t9kScheduler.priority, in a queue"),
    "gang": native("in a queue the platform's PodGroup of all replicas; without one, a PodGroup of scheduler-plugins"),
    "deadlines": native("runPolicy.activeDeadlineSeconds for `total`; the launcher keeps all of them"),
    "keep_for": done("by the janitor"),
    "on_end": native("runPolicy.cleanUpPolicy for what still runs; the launcher removes the rest"),
    "on_evicted": done("by a Kubernetes Job that owns it until the time is over"),
    "pause": native("runMode.pause.enabled"),
    "created_suspended": native("`systems.t9k.suspend`"),
    "hold": native("runMode.debug"),
    "live_logs": done("from the pods"),
    "tensorboard": native("tensorboardSpec, over the claim with the event files"),
    "adopt": done("by name and labels"),
    "labels": native("on the job and its pods"),
}
