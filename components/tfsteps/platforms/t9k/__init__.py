"""The job system `t9k`: TensorFlowTrainingJob, batch.tensorstack.dev/v1beta1, of TensorStack's platform."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec import RoleName, TrainingJob
from tfsteps.spec.fields import Filled, Text
from tfsteps.systems.capabilities import Capability, native, refused
from tfsteps.systems.kubernetes.capabilities import of_pods
from tfsteps.systems.plugin import kubernetes_plugin

_Words = Annotated[tuple[Text, ...], Meta(examples=[["sleep", "inf"]])]
_FileSet = Annotated[
    str,
    Meta(
        pattern=r"^t9k://(pvc/[^/]+|minio/[^/]+/[^/]+)/.*$",
        description="t9k://pvc/<claim>/<path> or t9k://minio/<secret>/<bucket>/<path>",
        examples=["t9k://pvc/data/logs"],
    ),
]
_Address = Annotated[
    str,
    Meta(pattern=r"^https?://[^\s]+$", description="an http:// or https:// address", examples=["http://files/logs"]),
]
_Bucket = Annotated[
    str, Meta(pattern=r"^s3://[^/\s]+(/[^\s]*)?$", description="s3://<bucket>/<path>", examples=["s3://runs/logs"])
]
Skips = bool | dict[RoleName, bool]


class S3Logs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Event files in object storage, for T9k's TensorBoard.

    Attributes:
        secret: Secret with the access keys, labelled `tensorstack.dev/resource: s3`. Empty = none is named.
        uris: The folders; empty = the event files of the job, whose `output_dir` is an s3:// address.
    """

    secret: Filled | None = None
    uris: tuple[_Bucket, ...] = ()


class T9kOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a TensorFlowTrainingJob.

    Attributes:
        debug: Hold the replicas: each runs a command that does nothing in place of its own, for a shell in its pod.
        debug_commands: What the held replicas of a role run; a role that is not named here runs T9k's `sleep inf`. With
            any role named, only the named ones are held; an empty list = T9k's own.
        debug_skip_init_containers: Leave out the init containers of held replicas: true, or a mapping from roles to
            true or false; a role that is not in it keeps them.
        suspend: Create the job paused; `tfsteps resume` starts it.
        resume_commands: Commands of a role after a pause, in place of its own; fixed once the job is created.
        resume_args: Arguments of a role after a pause, in place of its own; fixed once the job is created.
        resume_skip_init_containers: Leave out the init containers after a pause: the same forms.
        clean_up: Pods that T9k deletes when the job has ended: those that still run, all, or none. Finished pods count
            against a project's quota, and their logs are gone with them.
        tensorboard_file_sets: Where T9k's TensorBoard reads. With no location here and in the next two, it reads the
            event files, on the claim that they are on.
        tensorboard_s3: Where it reads in object storage, and with which Secret.
        tensorboard_urls: Addresses of event files that it reads by HTTP.
        tensorboard_queue: Queue of the TensorBoard's pod; empty = the default scheduler.
        tensorboard_resources: What the TensorBoard needs, as a container's `resources` in Kubernetes.
        gpu_label: Node label whose value is the model of the node's GPUs; `gpu_type` is looked for there.
    """

    debug: bool = False
    debug_commands: dict[RoleName, _Words] = {}
    debug_skip_init_containers: Skips = False
    suspend: bool = False
    resume_commands: dict[RoleName, _Words] = {}
    resume_args: dict[RoleName, _Words] = {}
    resume_skip_init_containers: Skips = False
    clean_up: Literal["unfinished", "all", "none"] = "unfinished"
    tensorboard_file_sets: tuple[_FileSet, ...] = ()
    tensorboard_s3: S3Logs | None = None
    tensorboard_urls: tuple[_Address, ...] = ()
    tensorboard_queue: Filled | None = None
    tensorboard_resources: dict[str, Any] = {}
    gpu_label: str = "nvidia.com/gpu.product"


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


def held(job: TrainingJob, commands: Mapping[RoleName, Sequence[str]]) -> TrainingJob:
    """Return a job in debug mode: the controller has replicas of these roles run `commands` in place of their own."""
    debug = {"debug": True, "debug_commands": {role: list(command) for role, command in commands.items()}}
    systems = {**job.systems, "t9k": {**job.systems.get("t9k", {}), **debug}}
    return msgspec.structs.replace(job, systems=systems)


PLUGIN = kubernetes_plugin(
    "tfsteps.platforms.t9k.trainingjob:TensorFlowTrainingJob",
    name="t9k",
    options=T9kOptions,
    capabilities=CAPABILITIES,
    discovery_rank=20,
    hold=held,
    readers={("batch.tensorstack.dev/v1beta1", "TensorFlowTrainingJob"): "tfsteps.platforms.t9k.reader:read_t9k"},
)
