"""What a JobSet can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native
from tfsteps.systems.kubernetes.capabilities import NO_RESTART_ALWAYS, of_pods, priority_by_class

CAPABILITIES: Mapping[str, Capability] = {
    **of_pods("jobset"),
    "chief": native("a replicated job"),
    "worker": native("a replicated job, an index for each worker"),
    "ps": native("a replicated job; ended with the decisive one"),
    "evaluator": native("a replicated job, outside TF_CONFIG's cluster"),
    "restart_never": native("backoffLimit 0"),
    "restart_on_failure": native("the pods' restartPolicy; all replicas together by `systems.jobset.restart_together`"),
    "restart_always": NO_RESTART_ALWAYS,
    "restart_exit_code": native("podFailurePolicy: codes 1 to 127 end the Job"),
    "backoff_limit": native("each Job's backoffLimit; tfsteps counts over all of them"),
    "role_backoff_limit": native("the Job's backoffLimit"),
    "success_chief": native("successPolicy of the JobSet, and of the workers' Job where worker 0 decides"),
    "success_all_workers": native("successPolicy of the JobSet"),
    "tf_config": done("made of the host names that the JobSet's headless Service gives"),
    "queue": native("the label of Kueue"),
    "priority": priority_by_class("jobset"),
    "gang": done("a PodGroup, which the scheduler of `gang.scheduler` looks at"),
    "deadlines": done("by the launcher; `total` is each Job's activeDeadlineSeconds, too"),
    "keep_for": native("ttlSecondsAfterFinished"),
    "on_end": native("the controller ends what still runs; the launcher removes the rest"),
    "pause": native("spec.suspend"),
    "created_suspended": native("`systems.jobset.suspend`"),
    "labels": native("on the JobSet, its Jobs and their pods"),
}
