"""What a TrainJob can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native, refused
from tfsteps.systems.features import fields
from tfsteps.systems.kubernetes.capabilities import ADD_COMMAND, NO_RESTART_ALWAYS, of_pods
from tfsteps.systems.trainjob import checks

_USE_JOBSET = "or use --system jobset"
_RUNTIME = f"Remove it, and put it into a runtime of your own that `systems.trainjob.runtime` names, {_USE_JOBSET}"

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
    "volumes": native("podSpecOverrides"),
    "placement": native("podSpecOverrides"),
    "pod_patch": refused(f"a TrainJob overrides only {checks.OVERRIDABLE}", _RUNTIME, checks.other_patches),
    "pod_settings": refused(
        "a TrainJob overrides the ServiceAccount, and nothing of how images are pulled",
        f"Put them on the ServiceAccount or remove them, {_USE_JOBSET}",
        fields("image_pull_secrets", "image_pull_policy"),
    ),
    "gpu": native("resourcesPerNode"),
    "queue": native("the label of Kueue"),
    "priority": refused("Kubernetes has PriorityClasses, which only a runtime can name", _RUNTIME),
    "gang": refused("only a runtime has a podGroupPolicy", _RUNTIME),
    "on_end": native("the controller ends what still runs; the launcher removes the rest"),
    "pause": native("spec.suspend"),
    "created_suspended": native("`systems.trainjob.suspend`"),
    "labels": done("on the TrainJob; the launcher puts them on the pods"),
}
