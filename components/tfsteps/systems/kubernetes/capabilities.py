"""Capabilities that most job systems on Kubernetes share, because their replicas are pods of a template."""

from tfsteps.spec import TrainingJob
from tfsteps.systems.capabilities import Capability, done, native, refused
from tfsteps.systems.features import FEATURES, Use

NO_RESTART_ALWAYS = refused(
    "the pods of a Kubernetes Job end with their program", "Write `on_failure`, or let the program loop"
)

ADD_COMMAND = "Add `command:` with what the image's entrypoint does"


def of_pods(system: str) -> dict[str, Capability]:
    """Return the capabilities that follow from a pod template and from the launcher.

    Args:
        system: Name of the job system, whose options have a `gpu_label`.
    """
    return {
        "entrypoint": native("a container without a command"),
        "code": done("a ConfigMap of the job, or an object of a bucket, which each replica unpacks before its command"),
        "role_templates": native("each role has its own pod template"),
        "env_sources": native("the pods' env"),
        "volumes": native("the pods' volumes"),
        "shared_memory": done("a volume in memory at /dev/shm"),
        "placement": native("the pods' nodeSelector and tolerations"),
        "pod_patch": native("the pod template"),
        "pod_settings": native("the pod template"),
        "cpu": native("the container's requests and limits"),
        "memory": native("the container's requests and limits"),
        "gpu": native("the resource nvidia.com/gpu, or `gpu_resource`"),
        "gpu_type": native(f"a node selector by the label `systems.{system}.gpu_label`"),
        "platform_gpu": refused(
            "no platform settings say which resource it is", "Name it in `gpu_resource`, or ask the platform's operator"
        ),
        "all_gpus": refused(
            "a pod gets the GPUs that it requests", "Write their number, or make the container privileged by `pod`"
        ),
        "personal": refused("nothing says who created the job", "Set TFSTEPS_CREATOR where the job is launched"),
        "cluster": done("a kubeconfig in a Secret, which the platform settings name"),
        "deadlines": done("by the launcher"),
        "keep_for": done("by the janitor"),
        "on_evicted": done("by a Kubernetes Job that owns it until the time is over"),
        "hold": done("the command is replaced by a sleep"),
        "live_logs": done("from the pods"),
        "usage": done("from the cluster's metrics API, if it serves one"),
        "tensorboard": done("a Kubernetes Job with a Service, which ends by itself"),
        "adopt": done("by name and labels"),
    }


def priority_by_class(system: str) -> Capability:
    """Return the capability of a priority that is refused unless the job names a PriorityClass.

    Args:
        system: Name of the job system, whose options have a `priority_class`.
    """

    def without_class(job: TrainingJob) -> list[Use]:
        return [] if job.systems.get(system, {}).get("priority_class") else [*FEATURES["priority"].uses(job)]

    fix = f"Add the PriorityClass that stands for the number: `systems: {{{system}: {{priority_class: NAME}}}}`"
    return refused("Kubernetes has PriorityClasses, not numbers", fix, without_class)
