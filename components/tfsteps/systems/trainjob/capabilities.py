"""What a TrainJob can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native, refused
from tfsteps.systems.kubernetes.capabilities import ADD_COMMAND, NO_RESTART_ALWAYS, of_pods
from tfsteps.systems.trainjob import checks

_USE_JOBSET = "or use --system jobset"
_RUNTIME = f"Remove it, {checks.RUNTIME}"

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
        checks.differences,
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
    "pod_patch": refused(f"a TrainJob can set only {checks.SETTABLE}", _RUNTIME, checks.other_patches),
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
