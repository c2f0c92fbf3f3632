"""What a TFJob of the training operator can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native, refused
from tfsteps.systems.kubernetes.capabilities import of_pods, priority_by_class

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
    "backoff_limit": native("runPolicy.backoffLimit; pods that are made anew are counted by tfsteps"),
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
