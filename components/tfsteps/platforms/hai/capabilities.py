"""Features of HAI Platform."""

from collections.abc import Mapping

from tfsteps.spec import TrainingJob
from tfsteps.spec.problems import shown
from tfsteps.systems.capabilities import Capability, done, native, refused, unused
from tfsteps.systems.features import Use

_WHOLE_NODE = unused("a rank is a whole node")
_NOTHING_LEFT = unused("ranks are gone at the end, and records of tasks cannot be removed")


def _other_images(job: TrainingJob) -> list[Use]:
    """Return the images of roles that are not the job's."""
    others = {name: role.image for name, role in job.roles.items() if role.image not in (None, job.image)}
    return [Use(("roles", name, "image"), shown(image)) for name, image in others.items()]


CAPABILITIES: Mapping[str, Capability] = {
    "chief": done("rank 0; the wrapper makes roles of ranks"),
    "worker": done("a rank each, which is a whole node"),
    "ps": done("a rank each; the wrapper ends them when the decisive replica is done"),
    "evaluator": done("the last rank, outside TF_CONFIG's cluster"),
    "entrypoint": refused("HAI does not run an image's entrypoint", "Add `command: [python, train.py]`"),
    "code": refused(
        "HAI runs programs of its shared file system",
        "Remove it, and name a git repository in `systems.hai.git_remote_repo`, or push the folder by "
        "`haiworkspace push` and name it in `working_dir`",
    ),
    "role_templates": refused(
        "a task has one image",
        "Use one image for the job; command, args, env and folder may differ by role",
        _other_images,
    ),
    "restart_never": native("a rank that fails ends the task"),
    "restart_on_failure": done("the wrapper starts programs again in place; HAI restarts only what it interrupted"),
    "restart_always": done("the wrapper starts programs again in place"),
    "restart_exit_code": done("the wrapper starts programs again whose code is 128 or above"),
    "backoff_limit": done("counted by the wrapper; interruptions by HAI do not count"),
    "role_backoff_limit": done("counted by the wrapper"),
    "success_chief": done("the wrapper ends the other ranks when rank 0's program has succeeded"),
    "success_all_workers": done("the wrapper waits for them"),
    "tf_config": done("the ranks' wrappers exchange their addresses over rank 0"),
    "env_sources": refused(
        "HAI has no Secrets, ConfigMaps and pod fields",
        "Write the value, or let the program read a file on the shared file system, or MARSV2_* variables",
    ),
    "volumes": refused(
        "HAI's operator decides what is mounted", "Use paths on the shared file system, which every rank sees"
    ),
    "pod_settings": unused("HAI makes the pods itself"),
    "cpu": _WHOLE_NODE,
    "memory": _WHOLE_NODE,
    "shared_memory": refused("HAI sets the size, a volume in memory", "Remove it"),
    "placement": refused("HAI chooses nodes by group", "Remove it, and write the group of such nodes in `queue`"),
    "pod_patch": refused("HAI makes the pods itself", "Remove it; see the options below systems.hai"),
    "gpu": refused("a rank has all GPUs of its node", "Remove it"),
    "platform_gpu": refused("a rank has all GPUs of its node", "Remove it"),
    "all_gpus": unused("a rank has all GPUs of its node anyway"),
    "personal": refused("HAI mounts the user's own folders", "Remove the volume"),
    "gpu_type": refused("HAI chooses nodes by group", "Write the group of nodes with such GPUs in `queue`"),
    "queue": native("the group of nodes"),
    "cluster": refused("jobs live on HAI, not on a cluster of Kubernetes", "Remove it"),
    "priority": native("seven levels; none = AUTO; `systems.hai.priority` takes HAI's names and numbers"),
    "gang": native("all nodes of a task are granted together"),
    "deadlines": done("by the launcher; `total` is the task's timeout, too"),
    "keep_for": _NOTHING_LEFT,
    "on_end": _NOTHING_LEFT,
    "on_evicted": unused("nothing would end the task after the time"),
    "pause": done("the task is stopped, and resumed later"),
    "created_suspended": done("the task is stopped as soon as it is created"),
    "hold": done("the command is replaced by a sleep"),
    "live_logs": native("the log of every rank, asked for again and again"),
    "usage": unused("HAI's monitor, which has them, is not reachable at the address of its API"),
    "tensorboard": refused(
        "HAI has no TensorBoard", "Remove it, and look at `tfsteps report`, or run one as a service of the task"
    ),
    "adopt": done("by name and tags"),
    "labels": native("tags"),
}
