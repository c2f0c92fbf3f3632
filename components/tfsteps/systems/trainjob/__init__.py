"""The job system `trainjob`: TrainJob, trainer.kubeflow.org/v1alpha1, of Kubeflow Trainer 2.0 to 2.3."""

from collections.abc import Mapping

import msgspec

from tfsteps.systems.capabilities import Capability, done, native, refused
from tfsteps.systems.kubernetes.capabilities import ADD_COMMAND, NO_RESTART_ALWAYS, of_pods
from tfsteps.systems.plugin import kubernetes_plugin
from tfsteps.systems.trainjob.overrides import RUNTIME, SETTABLE, differences, other_patches


class TrainJobOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of Kubeflow Trainer's TrainJob.

    Attributes:
        suspend: Create the job suspended; somebody else resumes it, such as Kueue.
        runtime: ClusterTrainingRuntime in place of the one of manifests/trainjob-runtimes that fits the job: a copy of
            that one with what a TrainJob has no field for.
        gpu_label: Node label whose value is the model of the node's GPUs; `gpu_type` is looked for there.
    """

    suspend: bool = False
    runtime: str | None = None
    gpu_label: str = "nvidia.com/gpu.product"


_USE_JOBSET = "or use --system jobset"
_RUNTIME = f"Remove it, {RUNTIME}"

CAPABILITIES: Mapping[str, Capability] = {
    **of_pods("trainjob"),
    "entrypoint": refused("the runtime's command makes TF_CONFIG, so the image's own is not run", ADD_COMMAND),
    "chief": done("rank 0"),
    "worker": done("ranks after the chief"),
    "ps": done("ranks after the workers; ended with rank 0"),
    "evaluator": done("the last rank, outside TF_CONFIG's cluster"),
    "role_templates": refused(
        "all replicas of a TrainJob share one pod template, and this differs between roles",
        f"Give all roles the same, {_USE_JOBSET}",
        differences,
    ),
    "restart_never": native("by the runtime"),
    "restart_on_failure": native("by the runtime: restartPolicy"),
    "restart_always": NO_RESTART_ALWAYS,
    "restart_exit_code": native("by the runtime: podFailurePolicy"),
    "backoff_limit": done("restarts are counted by the launcher"),
    "role_backoff_limit": refused("all roles are one Job", f"Set `backoff_limit` of the job, {_USE_JOBSET}"),
    "success_chief": native("by the runtime: successPolicy of its Job"),
    "success_all_workers": native("by the runtime; without parameter servers and evaluator"),
    "tf_config": done("by the runtime's command"),
    "env_sources": native("trainer.env"),
    "volumes": native("runtimePatches"),
    "placement": native("runtimePatches"),
    "pod_patch": refused(f"a TrainJob can set only {SETTABLE}", _RUNTIME, other_patches),
    "pod_settings": native("runtimePatches; pull secrets with Trainer 2.1 or newer, no pull policy"),
    "gpu": native("resourcesPerNode"),
    "queue": native("the label of Kueue"),
    "priority": refused("Kubernetes has PriorityClasses, which only a runtime can name", _RUNTIME),
    "gang": refused("only a runtime has a podGroupPolicy", _RUNTIME),
    "on_end": native("the controller ends what still runs; the launcher removes the rest"),
    "pause": native("spec.suspend"),
    "created_suspended": native("`systems.trainjob.suspend`"),
    "labels": done("runtimePatches; the role, and all of them with Trainer 2.0, by the launcher"),
}


# Never chosen automatically: a cluster that serves its API may lack the runtimes that its jobs name. Where it is
# served, JobSet usually is too, and can do more.
PLUGIN = kubernetes_plugin(
    "tfsteps.systems.trainjob.trainjob:TrainJob",
    name="trainjob",
    options=TrainJobOptions,
    capabilities=CAPABILITIES,
    plan_note="The TrainJob is shown as Trainer 2.2 and newer take it; on 2.0 and 2.1 it is created with their fields.",
    readers={("trainer.kubeflow.org/v1alpha1", "TrainJob"): "tfsteps.systems.trainjob.reader:read_trainjob"},
)
