"""Options of a TfJob, and what the job system can do."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec import TrainingJob, options_of
from tfsteps.spec.fields import Image
from tfsteps.systems.capabilities import Capability, done, native, refused
from tfsteps.systems.features import Use, no_commands
from tfsteps.systems.kubernetes.capabilities import ADD_COMMAND, NO_RESTART_ALWAYS, of_pods, priority_by_class

_Port = Annotated[int, Meta(ge=1, le=65_535, description="a whole number from 1 to 65535", examples=[2222])]


class TfJobOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a TfJob, the job object before kubeflow.org/v1.

    Attributes:
        api: Whose TfJob: tensorflow.org = tensorflow/k8s of 2017; kubeflow.org = its release as tf-operator 0.1.0,
            which has no TensorBoard and no default parameter server.
        tf_config: Whose TF_CONFIG the replicas get: tfsteps = with a `chief`, as TensorFlow 2 reads it; operator =
            with a `master`, as programs of TensorFlow 1 and default parameter servers expect it, and without a shell
            before the command. Empty = operator for default parameter servers beside images that run their own
            entrypoint, else tfsteps.
        tf_image: Image of the TensorBoard and of default parameter servers. Empty = `tensorboard.image`, or the job's.
        tf_port: Port of every replica in TF_CONFIG.
        default_ps: Let the operator run its own program as the parameter servers; the role's template is not used. The
            operator's configuration has to name that program in `grpcServerFilePath`.
        tensorboard_service: Type of the TensorBoard's Service.
        scheduler_name: Scheduler of all pods; kubeflow.org only, elsewhere `pod` says it.
        priority_class: PriorityClass of the pods.
        gpu_label: Node label whose value is the model of the node's GPUs; `gpu_type` is looked for there.
    """

    api: Literal["tensorflow.org", "kubeflow.org"] = "tensorflow.org"
    tf_config: Literal["tfsteps", "operator"] | None = None
    tf_image: Image | None = None
    tf_port: _Port = 2222
    default_ps: bool = False
    tensorboard_service: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    scheduler_name: str | None = None
    priority_class: str | None = None
    gpu_label: str = "nvidia.com/gpu.product"


def keeps_operators_tf_config(job: TrainingJob) -> bool:
    """Tell whether the replicas get TF_CONFIG as the operator writes it."""
    options = options_of(job, "tfjob-v1alpha1", TfJobOptions)
    if options.tf_config or not options.default_ps:
        return options.tf_config == "operator"
    return not any(role.command for name, role in job.resolved_roles().items() if name in ("chief", "worker"))


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
