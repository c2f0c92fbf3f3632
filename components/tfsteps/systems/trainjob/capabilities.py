"""What a TrainJob can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native, refused, unused

_ONE_TEMPLATE = "all replicas of a TrainJob share one pod template; the nearest is jobset"

CAPABILITIES: Mapping[str, Capability] = {
    "chief": done("rank 0"),
    "worker": done("ranks after the chief"),
    "ps": done("ranks after the workers; ended with rank 0"),
    "evaluator": done("the last rank, outside TF_CONFIG's cluster"),
    "role_templates": refused(_ONE_TEMPLATE),
    "restart_never": native("by the runtime"),
    "restart_on_failure": native("by the runtime: restartPolicy"),
    "restart_always": refused("the pods of a Kubernetes Job end with their program"),
    "restart_exit_code": native("by the runtime: podFailurePolicy"),
    "backoff_limit": done("restarts are counted by the launcher"),
    "role_backoff_limit": refused("all roles are one Job; the nearest is jobset"),
    "success_chief": native("by the runtime: successPolicy of its Job"),
    "success_all_workers": native("by the runtime; without parameter servers and evaluator"),
    "tf_config": done("by the runtime's command"),
    "env_sources": native("trainer.env"),
    "volumes": native("podSpecOverrides"),
    "shared_memory": done("a volume in memory at /dev/shm"),
    "placement": native("podSpecOverrides"),
    "pod_patch": refused("podSpecOverrides know a few fields only; the others are for the runtime to say"),
    "gpu": native("resourcesPerNode"),
    "gpu_type": native("a node selector by the label `systems.trainjob.gpu_label`"),
    "queue": native("the label of Kueue"),
    "priority": refused("a PriorityClass, which only a runtime can name"),
    "gang": refused("podGroupPolicy is for the runtime to say; the nearest is jobset"),
    "deadlines": done("by the launcher"),
    "keep_for": done("by the janitor"),
    "on_end": native("the controller ends what still runs; the launcher removes the rest"),
    "on_evicted": done("by a Kubernetes Job that owns it until the time is over"),
    "pause": native("spec.suspend"),
    "created_suspended": native("`systems.trainjob.suspend`"),
    "hold": done("the command is replaced by a sleep"),
    "live_logs": done("from the pods"),
    "tensorboard": unused("none is started on a cluster"),
    "adopt": done("by name and labels"),
    "labels": done("on the TrainJob; the launcher puts them on the pods"),
}
