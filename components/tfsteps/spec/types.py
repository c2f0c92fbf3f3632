"""The job description: frozen types, and for each field its meaning, unit and default.

`docs/reference/job.md` and the JSON schema are generated from here. Durations are seconds, memory is bytes, CPU is
cores.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec.fields import (
    CodeBucket,
    Count,
    Digest,
    Filled,
    Image,
    Limit,
    Members,
    MetricName,
    Name,
    ObjectName,
    Priority,
    Relative,
    Text,
)
from tfsteps.spec.pod import Env, Labels, Resources, Tolerations, Volumes
from tfsteps.spec.units import Duration, Keeping

RoleName = Literal["chief", "worker", "ps", "evaluator"]
ROLES: tuple[RoleName, ...] = ("chief", "worker", "ps", "evaluator")
Restart = Literal["never", "on_failure", "always", "exit_code"]
Strategy = Literal["single", "multi_worker_mirrored", "parameter_server", "between_graph"]
Command = Annotated[tuple[Text, ...], Meta(examples=[["python", "train.py"]])]
Arguments = Annotated[tuple[Text, ...], Meta(examples=[["--epochs", 3]])]
PodPatch = Annotated[dict[str, Any], Meta(examples=[{"spec": {"hostNetwork": True}}])]


NotificationEvent = Literal["succeeded", "failed", "deadline", "cancelled", "paused", "resumed", "restarting"]
NotificationFormat = Literal["json", "slack"]

WEBHOOK_PREFIX = "TFSTEPS_WEBHOOK_"
"""Names of variables with the URL of a webhook begin with it: they are for launchers, and no replica gets them."""

WEBHOOK_VARIABLE = rf"^{WEBHOOK_PREFIX}[A-Z0-9_]{{1,40}}$"
"""The pattern of such a name."""

WEBHOOK_DEFAULT = f"{WEBHOOK_PREFIX}URL"
MAX_WEBHOOKS = 5

Variable = Annotated[
    str,
    Meta(
        pattern=WEBHOOK_VARIABLE,
        extra={"secret": True},
        description="TFSTEPS_WEBHOOK_ and 1 to 40 capital letters, digits and '_'",
        examples=[WEBHOOK_DEFAULT],
    ),
]


class _SpecStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Role(_SpecStruct, frozen=True):
    """The replicas of one role. A field that is left out is inherited from the job.

    Attributes:
        replicas: Number of replicas. Leave a role without replicas out. At most 1 chief and 1 evaluator.
        image: Container image.
        command: Program and its first arguments.
        args: Arguments that follow `command`.
        working_dir: Working directory. Empty = the image's; in local runs, the job file's folder.
        env: Environment variables, added to the job's. A variable of the same name overrides the job's.
        resources: Replaces the job's resources.
        volumes: Added to the job's volumes.
        node_selector: Added to the job's node labels.
        tolerations: Added to the job's tolerations.
        restart: Replaces the job's restart policy.
        backoff_limit: Maximum number of restarts of this role, counted separately from the job's limit.
        pod: Kubernetes pod template (`metadata`, `spec`), merged over the generated one. Use it for pod settings that
            have no field here.
    """

    replicas: Count = 1
    image: Image | None = None
    command: Command | None = None
    args: Arguments | None = None
    working_dir: Filled | None = None
    env: Env = {}
    resources: Resources | None = None
    volumes: Volumes = ()
    node_selector: Labels = {}
    tolerations: Tolerations = ()
    restart: Restart | None = None
    backoff_limit: Limit | None = None
    pod: PodPatch = {}


class ResolvedRole(Role, frozen=True):
    """A role with the fields that it inherits from the job filled in. `backoff_limit` and `pod` are the role's own."""

    command: Command = ()
    args: Arguments = ()
    resources: Resources = Resources()
    restart: Restart = "never"

    @property
    def program(self) -> list[str]:
        """The command and its arguments; only the arguments if the role has no command."""
        return [*self.command, *self.args]


_CLAIM = "pvc://"
_Replicas = Annotated[Role, Meta(examples=[{"replicas": 2}])]


class Roles(_SpecStruct, frozen=True):
    """The roles of the job. At least a chief or a worker is required.

    Attributes:
        chief: The replica whose end decides the job. It also trains, or coordinates parameter servers.
        worker: Training tasks. Without a chief, worker 0 decides the job.
        ps: Parameter servers.
        evaluator: Evaluates the checkpoints. It is not part of the cluster in TF_CONFIG. The job succeeds without it,
            but fails if it fails and is not restarted.
    """

    chief: _Replicas | None = None
    worker: _Replicas | None = None
    ps: _Replicas | None = None
    evaluator: _Replicas | None = None

    def items(self) -> list[tuple[RoleName, Role]]:
        """Return the roles that the job has, in the order chief, worker, ps, evaluator."""
        every = [(name, getattr(self, name)) for name in ROLES]
        return [(name, role) for name, role in every if role is not None]


class Deadlines(_SpecStruct, frozen=True):
    """Limits after which tfsteps stops the job. A limit that is left out does not apply, except `total`.

    Deadlines count the time in which tfsteps can observe the job, by the launcher's own clock. Time in which the API
    server is unreachable or the launcher is suspended does not count, and time stamps of other machines are not used. A
    launcher that adopts a job counts the job's age, as reported by the API server, only for `total`; the other
    deadlines start again when it first observes the job.

    Time in which the job is suspended, or waits in its queue again after it was admitted, counts only for `total`: the
    replicas do not run, and whoever paused the job decides when it continues.

    Attributes:
        queue: Seconds in the queue until the job system first admits the job.
        pending: Seconds from admission until all replicas have started for the first time. If it is left out, the
            launcher only reports what the job waits for, after 10 minutes and each time the wait has doubled.
        running: Seconds from the start of all replicas to the end of the job, restarts included.
        no_progress: Seconds without a change of state, without output (an unfinished line such as a progress bar counts
            as output) and without growth of event files that the launcher can read. It does not count while the job is
            queued or suspended, or while the log of a replica cannot be read, and starts again after that. CPU time is
            not progress: a strategy that hangs uses CPU while it waits for its peers.
        total: Seconds from creation to the end of the job, with every queue, pause and restart. Default 7 days.
    """

    queue: Duration | None = None
    pending: Duration | None = None
    running: Duration | None = None
    no_progress: Duration | None = None
    total: Duration = 7 * 86400.0


class Outputs(_SpecStruct, frozen=True):
    """The outputs of the job, as paths below `output_dir`.

    Programs receive them as TFSTEPS_OUTPUT_DIR, TFSTEPS_MODEL_DIR and TFSTEPS_LOG_DIR. In local runs the folders exist
    when a program starts. On a cluster, a launcher that mounts the volume at the same path creates them, if it has
    permission; otherwise the program must create them, as TensorFlow's writers do.

    Attributes:
        model: Folder of the exported model.
        logs: Folder of the TensorBoard event files.
        metrics: Name of each metric, and the tag of its scalar in the event files: `<tag>` or `<run>/<tag>`. A tag that
            only the runs `train` and `validation` of Keras have means `train`. The last value that this attempt wrote
            is used; steps that a restart has rewound do not count. A launcher on Kubernetes starts a pod to read the
            event files if it does not mount their claim or NFS export, or if they are at a URI.
        earlier_attempts: Whether event files and a model count that were in the folders before this attempt. Set it if
            the program continues where an earlier attempt or run stopped, in the same `output_dir`.
    """

    model: Relative = "model"
    logs: Relative = "logs"
    metrics: Annotated[dict[MetricName, Filled], Meta(examples=[{"loss": "train/loss"}])] = {}
    earlier_attempts: bool = False


class WebhookUrl(_SpecStruct, frozen=True):
    """Source of a webhook's URL. The URL is a secret, so a job file cannot contain it.

    Attributes:
        env: Name of an environment variable of the launcher, not of the replicas, that contains the URL: http or
            https. Fill it from a Secret. If it is not set, the job runs without this webhook, with a warning.
    """

    env: Variable = WEBHOOK_DEFAULT


_URL = {"env": WEBHOOK_DEFAULT}


class Webhook(_SpecStruct, frozen=True):
    """A webhook: the launcher sends it an HTTP POST for each of the events.

    Delivery never changes the outcome of the job or step. At the end of the job the launcher waits at most 10 seconds
    for the last delivery.

    Attributes:
        url: Source of the URL.
        events: succeeded; failed (also lost); deadline = a deadline passed (then `failed` is not sent); cancelled;
            paused and resumed; restarting. Default failed and deadline.
        format: json = the notification of tfsteps; slack = a message as Slack's incoming webhooks take it.
    """

    url: Annotated[WebhookUrl, Meta(examples=[_URL], extra={"secret": True})] = WebhookUrl()
    events: Annotated[tuple[NotificationEvent, ...], Meta(examples=[["failed", "deadline"]])] = ("failed", "deadline")
    format: NotificationFormat = "json"


_WEBHOOK = {"url": _URL, "events": ["failed"], "format": "slack"}
Webhooks = Annotated[
    tuple[Annotated[Webhook, Meta(examples=[_WEBHOOK], extra={"secret": True})], ...],
    Meta(examples=[[_WEBHOOK]], extra={"secret": True}),
]


class Gang(_SpecStruct, frozen=True):
    """Gang scheduling: all replicas start together, or none does.

    Attributes:
        scheduler: Name of the gang scheduler, for job systems that have none of their own.
        min_available: Number of replicas that must be schedulable together. Empty = all.
        timeout: Seconds that scheduled replicas wait for the others. After that the scheduler releases their resources
            and tries again. Empty = the scheduler's configuration.
    """

    scheduler: Filled = "scheduler-plugins-scheduler"
    min_available: Members | None = None
    timeout: Duration | None = None


class TensorBoard(_SpecStruct, frozen=True):
    """A TensorBoard for the job's event files.

    Attributes:
        log_dir: Folder below `output_dir`. Empty = `outputs.logs`.
        image: Container image of TensorBoard on a cluster, with the packages tfsteps and tensorboard. Empty = the
            image of tfsteps.
        keep_for: Seconds after the last event data after which TensorBoard exits. Empty = a day. Locally, seconds after
            the job's end, with `--keep-tensorboard`.
        idle: Seconds without a request and without new event data after which TensorBoard on a cluster exits. Empty =
            an hour.
        via: What serves it on a cluster. job = a Kubernetes Job of tfsteps. kubeflow = a `Tensorboard` resource of
            Kubeflow, which Kubeflow's user interface lists: a Job of tfsteps removes it when `keep_for` has passed;
            `idle` and `image` then have no effect on the server.
    """

    log_dir: Relative | None = None
    image: Image | None = None
    keep_for: Duration | None = None
    idle: Duration | None = None
    via: Literal["job", "kubeflow"] = "job"

    @property
    def life_time(self) -> str:
        """The set fields that a job system with its own TensorBoard cannot follow, for messages; empty = none."""
        used = {"keep_for": self.keep_for, "idle": self.idle, "via": self.via != "job"}
        return ", ".join(f"`tensorboard.{name}`" for name, value in used.items() if value)


class CodeSource(_SpecStruct, frozen=True):
    """The files of the program: packed where the job is launched, and unpacked in each replica before its command.

    Left out are `.git`, what `.gitignore` and `.tfstepsignore` name, files that may hold secrets such as `.env`,
    caches, and links that lead out of the folder. `!NAME` in `.tfstepsignore` includes what is left out otherwise.

    Attributes:
        folder: The folder, relative to that of the job file.
        digest: SHA-256 of the packed files. tfsteps sets it when it packs the folder. If it is set, the files that were
            packed then are used, and no folder is read.
        bucket: Folder that the packed files are uploaded to, under the name of their hash, and fetched from by the
            replicas: s3://, gs://, or http(s):// of a server that takes PUT without credentials; the replicas need the
            credentials of the bucket. `pvc://CLAIM/FOLDER` is a folder of a PersistentVolumeClaim of the job's
            namespace; without FOLDER, the claim's root. The image needs `sh` and Python. Empty = a ConfigMap. A local
            run uses it only if the files were packed elsewhere.
    """

    folder: Filled = "."
    digest: Digest | None = None
    bucket: CodeBucket | None = None

    @property
    def claim(self) -> str:
        """The claim that `bucket` names; empty = the code is elsewhere."""
        bucket = self.bucket or ""
        return bucket.removeprefix(_CLAIM).partition("/")[0] if bucket.startswith(_CLAIM) else ""

    @property
    def claim_folder(self) -> str:
        """The folder on that claim, relative to its root; empty = the root."""
        return (self.bucket or "").removeprefix(_CLAIM).partition("/")[2].strip("/") if self.claim else ""


OWN_CLUSTER = "in-cluster"
"""What a job calls the cluster of its step."""


class TrainingJob(_SpecStruct, frozen=True):
    """One distributed TensorFlow job.

    Attributes:
        name: Prefix of the job object's name. A hash of run, task and attempt is appended.
        roles: The roles of the job, and their replicas.
        image: Container image of every role. Local runs do not use it.
        command: Program and its first arguments, for every role. Empty = the image's entrypoint; required in local
            runs.
        args: Arguments that follow `command`.
        code: Files of the program that the replicas get, so that a stock image is enough: a folder such as `.`, or a
            mapping. On a cluster a ConfigMap of the job carries them, at most 700 KiB compressed, and the image needs
            `sh` and `tar`; a `bucket` takes more. Programs start in the unpacked folder, TFSTEPS_CODE_DIR. Empty = the
            image has the program; local runs use the job file's folder as it is.
        working_dir: Working directory. Empty = the image's; in local runs, the job file's folder. With `code`, it is
            the unpacked folder, and a relative path starts from there.
        env: Environment variables. A value is text, or comes from a Secret, ConfigMap or pod field. In `command`,
            `args` and text, `$(NAME)` is the value of a variable, and `$$` is `$`, as on Kubernetes.
        resources: Resources of each replica, for every role that has no `resources`.
        volumes: Volumes of every role.
        node_selector: Labels that a node must have.
        tolerations: Tolerations of every role's pods.
        labels: Labels of the job and its pods.
        annotations: Annotations of the job and its pods. Istio proxies are not injected into the pods unless
            `sidecar.istio.io/inject` is "true" here.
        service_account: ServiceAccount of the pods. Empty = the namespace's default.
        image_pull_secrets: Names of Secrets with registry credentials.
        image_pull_policy: As in Kubernetes. Empty = Kubernetes' default.
        pod: Kubernetes pod template, merged over the generated one, for every role.
        strategy: How the replicas work together. It decides what the loss of a replica means for the job. Empty =
            parameter_server if the job has ps, single for one replica, otherwise multi_worker_mirrored. between_graph
            is TensorFlow 1's ps and workers without a chief.
        restart: When a replica is restarted: never, on_failure (exit code other than 0), always, exit_code (exit code
            128 or above).
        backoff_limit: Restarts of the whole job, after which it has failed. Default 3; 0 if no role is restarted. If it
            is not set, the job also fails (`SameFailure`) when a replica fails twice in succession by the same
            exception at the same place.
        success: chief = the job succeeds if the chief does (worker 0 if there is no chief); all_workers = the chief and
            every worker must succeed.
        deadlines: Limits after which tfsteps stops the job.
        output_dir: Folder that all replicas can access: a path (absolute on a cluster), or a URI such as
            gs://bucket/{run_id}. {name}, {run_id} and {task} are replaced. Empty = the run's folder in local runs; on a
            cluster, tfsteps/{run_id}/{task} on the job's first claim or NFS export that is not read-only. Without such
            a volume, the files of replicas are lost with their pods, and the step's outputs model and logs are empty.
        outputs: Paths of the model, the event files and the metrics.
        tensorboard: If set, tfsteps starts a TensorBoard for the job.
        on_end: What remains when the job has ended: keep (everything), delete_pods, or delete (nothing). Empty =
            delete_pods after success, keep after failure.
        keep_for: Seconds after which the janitor deletes what remains. Empty = the janitor's default, which is never
            unless its operator sets another one.
        on_evicted: What happens to the job if its launcher's pod is evicted or deleted and no other pod replaces it.
            stop deletes the job. A duration keeps it that long, so that a retry of the run can adopt it; then
            Kubernetes deletes it. Empty = stop.
        notify: Webhooks that the launcher calls when the job fails, succeeds, is paused and so on; at most 5.
        gang: If set, all replicas start together, or none does.
        queue: Queue of the job system.
        cluster: The Kubernetes cluster of the job, by its name in the platform settings; for commands on a machine also
            a context of the kubeconfig. The step, its settings and its records stay on its own cluster, whose name is
            `in-cluster`. Empty = the cluster that the settings give, otherwise that of the step.
        priority: 0 (lowest) to 100.
        systems: Options of one job system, by the name of the system.
    """

    name: Name
    roles: Annotated[Roles, Meta(examples=[{"worker": {"replicas": 2}}])]
    image: Image | None = None
    command: Command = ()
    args: Arguments = ()
    code: Filled | CodeSource | None = None
    working_dir: Filled | None = None
    env: Env = {}
    resources: Resources = Resources()
    volumes: Volumes = ()
    node_selector: Labels = {}
    tolerations: Tolerations = ()
    labels: Labels = {}
    annotations: Labels = {}
    service_account: ObjectName | None = None
    image_pull_secrets: tuple[ObjectName, ...] = ()
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    pod: PodPatch = {}
    strategy: Strategy | None = None
    restart: Restart = "never"
    backoff_limit: Limit | None = None
    success: Literal["chief", "all_workers"] = "chief"
    deadlines: Deadlines = Deadlines()
    output_dir: Filled | None = None
    outputs: Outputs = Outputs()
    tensorboard: TensorBoard | None = None
    on_end: Literal["keep", "delete_pods", "delete"] | None = None
    keep_for: Duration | None = None
    on_evicted: Keeping | None = None
    notify: Webhooks = ()
    gang: Gang | None = None
    queue: Filled | None = None
    cluster: Filled | None = None
    priority: Priority | None = None
    systems: dict[str, dict[str, Any]] = {}

    @property
    def other_cluster(self) -> str:
        """The cluster of the job if that is another one than that of its step; empty = it is not."""
        return "" if self.cluster == OWN_CLUSTER else self.cluster or ""

    def resolved_roles(self) -> dict[RoleName, ResolvedRole]:
        """Return the roles with the fields inherited from the job, in the order chief, worker, ps, evaluator."""
        return {
            name: ResolvedRole(
                replicas=role.replicas,
                image=role.image or self.image,
                command=role.command or self.command,
                args=self.args if role.args is None else role.args,
                working_dir=role.working_dir or self.working_dir,
                env={**self.env, **role.env},
                resources=role.resources or self.resources,
                volumes=(*self.volumes, *role.volumes),
                node_selector={**self.node_selector, **role.node_selector},
                tolerations=(*self.tolerations, *role.tolerations),
                restart=role.restart or self.restart,
                backoff_limit=role.backoff_limit,
                pod=role.pod,
            )
            for name, role in self.roles.items()
        }

    def parts(self) -> "Iterator[tuple[tuple[str | int, ...], Role | TrainingJob]]":
        """Yield the job, then each role, with its path: all that describe pods, with mostly the same fields."""
        yield (), self
        for name, role in self.roles.items():
            yield ("roles", name), role

    @property
    def replicas(self) -> int:
        """The number of replicas of all roles, the evaluator's included."""
        return sum(role.replicas for _, role in self.roles.items())

    @property
    def code_source(self) -> CodeSource | None:
        """The files of the program; None = the image, or the job file's folder, has them."""
        return CodeSource(folder=self.code) if isinstance(self.code, str) else self.code

    @property
    def effective_strategy(self) -> Strategy:
        """The strategy; inferred from the roles if the job does not set one."""
        if self.strategy:
            return self.strategy
        if self.roles.ps:
            return "parameter_server"
        trainers = [role.replicas for name, role in self.roles.items() if name in ("chief", "worker")]
        return "single" if sum(trainers) <= 1 else "multi_worker_mirrored"

    @property
    def decisive_replica(self) -> tuple[RoleName, int]:
        """Role and index of the replica whose end decides the job: the chief, otherwise worker 0."""
        return ("chief", 0) if self.roles.chief else ("worker", 0)

    @property
    def effective_backoff_limit(self) -> int:
        """The job's backoff limit; the default if the job does not set one."""
        if self.backoff_limit is None:
            policies = {role.restart or self.restart for _, role in self.roles.items()}
            return 0 if policies == {"never"} else 3
        return self.backoff_limit

    @property
    def names_backoff_limit(self) -> bool:
        """Whether the job itself says how many restarts it may have, as a whole or of a role."""
        return self.backoff_limit is not None or any(role.backoff_limit is not None for _, role in self.roles.items())
