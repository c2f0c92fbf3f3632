"""Features of a TfJob of the API v1alpha1."""

from collections.abc import Mapping

from tfsteps.platforms.tfjob_v1alpha1.options import TfJobOptions, keeps_operators_tf_config
from tfsteps.spec import TrainingJob, options_of
from tfsteps.systems.capabilities import Capability, done, native, refused
from tfsteps.systems.features import Use, no_commands
from tfsteps.systems.kubernetes.capabilities import ADD_COMMAND, NO_RESTART_ALWAYS, of_pods, priority_by_class

_USE_ANOTHER = "Remove it, or use the job system `kubeflow`, `jobset` or `jobs`"


def _uncorrected(job: TrainingJob) -> list[Use]:
    """Return the roles without a command whose TF_CONFIG would have to be corrected by one."""
    if keeps_operators_tf_config(job):
        return []
    default_ps = options_of(job, "tfjob-v1alpha1", TfJobOptions).default_ps
    return [use for use in no_commands(job) if use.path[1] != "evaluator" and not (default_ps and use.path[1] == "ps")]


CAPABILITIES: Mapping[str, Capability] = {
    **of_pods("tfjob-v1alpha1"),
    "entrypoint": refused(
        "the operator's TF_CONFIG has a `master`, which TensorFlow 2 refuses, and only a command can correct it",
        f"{ADD_COMMAND}, or, for a program of TensorFlow 1, `systems: {{tfjob-v1alpha1: {{tf_config: operator}}}}`",
        _uncorrected,
    ),
    "chief": native("replicaSpecs with type MASTER"),
    "worker": native("replicaSpecs with type WORKER; without a chief, worker 0 is the MASTER"),
    "ps": native("replicaSpecs with type PS; the operator's own program with `systems.tfjob-v1alpha1.default_ps`"),
    "evaluator": done("a Kubernetes Job beside the TfJob, which has no type for one; its failure is only a warning"),
    "restart_never": done("a restart ends the job: the Kubernetes Job of a replica would go on"),
    "restart_on_failure": native(
        "restartPolicy OnFailure; exit codes 1 to 127 of the replica that decides end the job, and a warning says so"
    ),
    "restart_always": refused(NO_RESTART_ALWAYS.note, "Write `exit_code`, or let the program loop"),
    "restart_exit_code": native("what the operator does with the MASTER: codes from 128 on"),
    "backoff_limit": done("restarts are counted by the launcher; each replica restarts 6 times at the most"),
    "role_backoff_limit": refused(
        "a TfJob has one limit for all roles, which tfsteps keeps", "Set `backoff_limit` of the job"
    ),
    "success_chief": native("terminationPolicy.chief"),
    "success_all_workers": refused("the MASTER alone decides, which is chief 0 or worker 0", _USE_ANOTHER),
    "tf_config": done(
        "the operator's has a `master`, which TensorFlow 2 refuses: a shell puts ours in its place, unless "
        "`systems.tfjob-v1alpha1.tf_config` is `operator`"
    ),
    "gpu": native(
        "the resource nvidia.com/gpu, or `gpu_resource`; the operator adds its configured volumes and variables to it"
    ),
    "queue": refused("a TfJob starts at once", _USE_ANOTHER),
    "priority": priority_by_class("tfjob-v1alpha1"),
    "gang": refused("a TfJob starts at once, before its PodGroup could be there", _USE_ANOTHER),
    "on_end": done("the Kubernetes Jobs that still run are suspended: the operator ends none; the rest as anywhere"),
    "pause": done("the replicas' Kubernetes Jobs are suspended; not with `api: kubeflow.org`"),
    "created_suspended": refused("a TfJob starts at once", _USE_ANOTHER),
    "tensorboard": native("spec.tensorboard, of all volumes of the decisive replica"),
    "labels": native("on the TfJob and its pods; RuntimeId, which all other names are made of, is set by us"),
}
