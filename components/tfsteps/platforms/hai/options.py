"""What a job file may say for HAI: its options below `systems: {hai: ...}`, and which features of a job it supports."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec import Duration, TrainingJob
from tfsteps.spec.problems import shown
from tfsteps.systems.capabilities import Capability, done, native, refused, unused
from tfsteps.systems.features import Use

Port = Annotated[int, Meta(ge=1, le=65535, description="a whole number from 1 to 65535")]
Rank = Annotated[int, Meta(ge=0, le=10_000, description="a whole number from 0 to 10000")]
Size = Annotated[int, Meta(ge=0, le=1_000_000, description="a whole number from 0 to 1000000")]
Workspace = Annotated[str, Meta(pattern=r"^[^\s]{1,255}$", description="a path of 1 to 255 characters without spaces")]
Repository = Annotated[str, Meta(pattern=r"^[^\s]{1,1000}$", description="an address without spaces")]
Revision = Annotated[str, Meta(pattern=r"^[^\s-][^\s]{0,254}$", description="a branch, a tag or a commit")]
Level = Literal[
    "AUTO",
    "LOW",
    "BELOW_NORMAL",
    "UNDER_NORMAL",
    "NORMAL",
    "ABOVE_NORMAL",
    "HIGH",
    "VERY_HIGH",
    "EXTREME_HIGH",
    -1,
    0,
    5,
    8,
    10,
    20,
    30,
    40,
    50,
]
Mode = Annotated[int, Meta(ge=0, le=10, description="a whole number from 0 to 10")]
_WHOLE_NODE = unused("a rank is a whole node")
_NOTHING_LEFT = unused("ranks are gone at the end, and records of tasks cannot be removed")


class Service(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service beside the training program, as HAI has them.

    Attributes:
        name: Lower-case letters, digits and '-'; of one task each another.
        type: http and tcp are reached from outside and run on rank 0 alone; local is not.
        port: Its port; not for local.
        rank: The ranks that it runs on.
        startup_script: One command that starts it; no `;` and no line break.
        rewrite_uri: Take `/<user>/<task>/<service>` off the addresses of http requests.
    """

    name: Annotated[
        str,
        Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="lower-case letters, digits and '-'"),
    ]
    type: Literal["http", "tcp", "local"] = "local"
    port: Port | None = None
    rank: tuple[Rank, ...] = (0,)
    startup_script: (
        Annotated[str, Meta(pattern=r"^[^;\n]+$", description="one command without ';' and line breaks")] | None
    ) = None
    rewrite_uri: bool = False


class NodeResource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a rank gets of its node where that is not all of it; HAI's own units.

    Attributes:
        cpu: Cores requested.
        memory: Memory requested.
        cpu_limit: Cores at the most.
        memory_limit: Memory at the most.
    """

    cpu: Size | None = None
    memory: Size | None = None
    cpu_limit: Size | None = None
    memory_limit: Size | None = None


class HaiOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of HAI Platform.

    Attributes:
        workspace: Folder on the shared file system where the ranks start; empty = the job's `working_dir`.
        git_remote_repo: Address of a git repository that HAI clones on every rank, into `~/experiment_repo`, in place
            of a workspace. The job's `working_dir` is a folder in it.
        git_target_revision: Branch, tag or commit of that repository; empty = its default branch.
        priority: HAI's own level, by name or by the number that `hai-cli -p` takes, in place of the job's `priority`,
            which has another scale: 30 here is HIGH, and 30 there is NORMAL.
        group: Group of nodes, `group` or `group#zone`; the job's `queue` is the same. Empty = the platform's default.
            The zone has no effect on the open-source platform.
        spot: Use nodes that may be taken away at any time (resource.is_spot). No effect on the open-source platform.
        suspend: Create the task stopped; `tfsteps resume` starts it.
        mount_code: How the code is mounted, a number that the platform knows.
        py_venv: Python environment that is loaded before the program, `name` or `name[owner]`.
        services: Services beside the program. On the open-source platform the image has to hold the platform's own
            package `ambient`.
        sidecar: Sidecars, in the platform's own form. No effect on the open-source platform.
        timeout: Seconds after which the platform ends one run of the task; empty = `deadlines.total`.
        watchdog_time: Seconds without output after which the platform takes a rank for hung; empty = its own 1800. On
            the open-source platform the image has to hold the platform's own package `ambient`.
        override_node_resource: What a rank gets of its node.
        assigned_nodes: Names of the nodes to run on. No effect on the open-source platform.
        shared_in_group: Members of the user's group see the task.
        whole_life_state: A number that the program finds in MARSV2_WHOLE_LIFE_STATE and can set.
        record_git_revision: Note the workspace's git revision.
        profile: What the platform's profiler is to do, in its own form.
        grace: Seconds between SIGTERM and SIGKILL when a program is ended because the job continues without it, or
            restarts.
        finish: Seconds that evaluators and mirrored workers get to end by themselves once the decisive replica has
            succeeded; parameter servers never do, and are ended at once.
        sigterm_delay: Seconds from the notice of a suspension, the file TFSTEPS_SUSPEND_FILE, to SIGTERM; the platform
            ends the ranks 10 seconds after the notice.
    """

    workspace: Workspace | None = None
    git_remote_repo: Repository | None = None
    git_target_revision: Revision | None = None
    priority: Level | None = None
    group: Annotated[str, Meta(pattern=r"^[^\s#]+(#[^\s#]+)?$", description="`group` or `group#zone`")] | None = None
    spot: bool = False
    suspend: bool = False
    mount_code: Mode = 2
    py_venv: str | None = None
    services: tuple[Service, ...] = ()
    sidecar: Any = None
    timeout: Duration | None = None
    watchdog_time: Duration | None = None
    override_node_resource: NodeResource | None = None
    assigned_nodes: tuple[str, ...] = ()
    shared_in_group: bool = False
    whole_life_state: Size = 0
    record_git_revision: bool = False
    profile: dict[str, Any] = {}
    grace: Duration = 10.0
    finish: Duration = 30.0
    sigterm_delay: Duration = 5.0


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
