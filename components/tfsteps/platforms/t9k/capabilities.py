"""Features of a TensorFlowTrainingJob of T9k."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, native, refused
from tfsteps.systems.kubernetes.capabilities import of_pods

CAPABILITIES: Mapping[str, Capability] = {
    **of_pods("t9k"),
    "chief": native("replicaSpecs with type chief"),
    "worker": native("replicaSpecs with type worker"),
    "ps": native("replicaSpecs with type ps"),
    "evaluator": native("replicaSpecs with type evaluator"),
    "restart_never": native("restartPolicy Never"),
    "restart_on_failure": native("restartPolicy OnFailure"),
    "restart_always": native("restartPolicy Always"),
    "restart_exit_code": native("restartPolicy ExitCode: codes 130, 137, 138 and 143 only, and a warning says so"),
    "backoff_limit": native("runPolicy.backoffLimit, shared by all replicas"),
    "role_backoff_limit": refused(
        "a TensorFlowTrainingJob has one limit for all roles", "Set `backoff_limit` of the job"
    ),
    "success_chief": native("chief 0, or worker 0, decides"),
    "success_all_workers": refused(
        "chief 0, or worker 0, alone decides on a TensorFlowTrainingJob",
        "Write `success: chief`, and let the decisive replica wait for the others",
    ),
    "tf_config": native("set by the platform; for a single replica this is not documented"),
    "queue": native("scheduler.t9kScheduler.queue"),
    "priority": native("scheduler.t9kScheduler.priority, in a queue"),
    "gang": native("in a queue the platform's PodGroup of all replicas; without one, a PodGroup of scheduler-plugins"),
    "deadlines": native("runPolicy.activeDeadlineSeconds for `total`; the launcher keeps all of them"),
    "on_end": native("runPolicy.cleanUpPolicy for what still runs; the launcher removes the rest"),
    "pause": native("runMode.pause.enabled"),
    "created_suspended": native("`systems.t9k.suspend`"),
    "hold": native("runMode.debug"),
    "tensorboard": native("tensorboardSpec, over the claim with the event files"),
    "labels": native("on the job and its pods"),
}
