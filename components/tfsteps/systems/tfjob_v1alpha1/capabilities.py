"""What a TfJob of the API v1alpha1 can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native, refused

CAPABILITIES: Mapping[str, Capability] = {
    "chief": native("replicaSpecs with type MASTER"),
    "worker": native("replicaSpecs with type WORKER; without a chief, worker 0 is the MASTER"),
    "ps": native("replicaSpecs with type PS; the operator's own program with `systems.tfjob-v1alpha1.default_ps`"),
    "evaluator": done("a Kubernetes Job beside the TfJob: it has no type for one"),
    "role_templates": native("each replica spec has its own template"),
    "restart_never": done("a restart ends the job: the Kubernetes Job of a replica would go on"),
    "restart_on_failure": refused("is not possible for"),
    "restart_always": refused("the pods of a Kubernetes Job end with their program"),
    "restart_exit_code": native("what the operator does with the MASTER: codes from 128 on"),
    "backoff_limit": refused("is not possible for"),
    "role_backoff_limit": refused("a TfJob has no limits"),
    "success_chief": native("terminationPolicy.chief"),
    "success_all_workers": refused("the MASTER alone decides"),
    "tf_config": done("the operator's has a `master`, which TensorFlow 2 refuses: a shell puts ours in its place"),
    "env_sources": native("the pods' env"),
    "volumes": native("the pods' volumes"),
    "shared_memory": done("a volume in memory at /dev/shm"),
    "placement": native("the pods' nodeSelector and tolerations"),
    "pod_patch": native("the pod template"),
    "gpu": native(
        "the resource nvidia.com/gpu, or `gpu_resource`; the operator adds its configured volumes and variables to it"
    ),
    "gpu_type": native("a node selector by the label `systems.tfjob-v1alpha1.gpu_label`"),
    "queue": refused("a TfJob starts at once"),
    "priority": refused("PriorityClass"),
    "gang": refused("before its PodGroup could be there"),
    "deadlines": done("by the launcher"),
    "keep_for": done("by the janitor"),
    "on_end": done("the Kubernetes Jobs that still run are suspended: the operator ends none; the rest as anywhere"),
    "on_evicted": done("by a Kubernetes Job that owns it until the time is over"),
    "pause": done("the replicas' Kubernetes Jobs are suspended; not with `api: kubeflow.org`"),
    "created_suspended": refused("a TfJob starts at once"),
    "hold": done("the command is replaced by a sleep"),
    "live_logs": done("from the pods"),
    "tensorboard": native("spec.tensorboard, of all volumes of the deciding replica"),
    "adopt": done("by name and labels"),
    "labels": native("on the TfJob and its pods; RuntimeId, which all other names are made of, is set by us"),
}
