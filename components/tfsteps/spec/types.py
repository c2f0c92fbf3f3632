"""The job description: frozen types, and for each field its meaning, unit and default.

`docs/reference/job.md` and the JSON schema are generated from here. Durations are seconds, memory is bytes, CPU is
cores.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec.fields import (
    Count,
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


class _Base(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Role(_Base, frozen=True):
    """The replicas of one kind. What is left out comes from the job.

    Attributes:
        replicas: How many; a role with none is left out. One chief and one evaluator at the most.
        image: Container image.
        command: Program and its first arguments.
        args: Further arguments.
        working_dir: Folder to start in; empty = the image's own, locally the job file's folder.
        env: Added to the job's, a name of the same kind wins over it.
        resources: In place of the job's.
        volumes: Added to the job's.
        node_selector: Added to the job's.
        tolerations: Added to the job's.
        restart: In place of the job's.
        backoff_limit: Restarts of this role alone, counted apart from the shared limit.
        pod: Kubernetes pod template (`metadata`, `spec`) merged over the rendered one: for what has no field here.
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
    """A role as its replicas run: what it leaves out is the job's. `backoff_limit` and `pod` stay its own."""

    command: Command = ()
    args: Arguments = ()
    resources: Resources = Resources()
    restart: Restart = "never"

    @property
    def program(self) -> list[str]:
        """The command with its arguments; of a role without a command the arguments alone."""
        return [*self.command, *self.args]


_Replicas = Annotated[Role, Meta(examples=[{"replicas": 2}])]


class Roles(_Base, frozen=True):
    """Who takes part. At least a chief or a worker.

    Attributes:
        chief: The deciding task, which also trains (or coordinates parameter servers).
        worker: Training tasks; without a chief, worker 0 decides.
        ps: Parameter servers.
        evaluator: Follows the checkpoints, outside TF_CONFIG's cluster.
    """

    chief: _Replicas | None = None
    worker: _Replicas | None = None
    ps: _Replicas | None = None
    evaluator: _Replicas | None = None

    def items(self) -> list[tuple[RoleName, Role]]:
        """Return the roles that are there, in the order chief, worker, ps, evaluator."""
        every = [(name, getattr(self, name)) for name in ROLES]
        return [(name, role) for name, role in every if role is not None]


class Deadlines(_Base, frozen=True):
    """When to give up. Each is enforced by tfsteps; left out = none, but for `total`.

    They count the time in which tfsteps can see the job, by its own clock: not while the API server is away or the
    launcher itself stands still, and never by time stamps of other machines. A launcher that adopts a job counts its
    age, as the API server tells it, for `total` alone; the others begin anew when it first sees the job.

    Attributes:
        queue: Seconds until the job system lets the job start.
        pending: Seconds from then until all replicas have started. Left out, the launcher only reports what the job
            waits for, after 10 minutes and whenever the wait has doubled.
        running: Seconds from then on to the end.
        no_progress: Seconds without a change of state, without output (an unfinished line such as a progress bar
            counts, too) and without growth of event files that the launcher can read. Not counted while the job is
            queued, or the log of a replica cannot be read. CPU time is no sign of progress: a strategy that hangs uses
            CPU while it waits for its peers.
        total: Seconds from creation to the end, restarts included. Default 7 days.
    """

    queue: Duration | None = None
    pending: Duration | None = None
    running: Duration | None = None
    no_progress: Duration | None = None
    total: Duration = 7 * 86400.0


class Outputs(_Base, frozen=True):
    """What the job leaves, as paths below `output_dir`.

    Programs get them as TFSTEPS_OUTPUT_DIR, TFSTEPS_MODEL_DIR and TFSTEPS_LOG_DIR. On this machine the folders exist
    when a program starts. On a cluster a launcher that mounts the volume at the same path makes them, if it may;
    elsewhere the program makes them, as TensorFlow's writers do.

    Attributes:
        model: Folder of the exported model.
        logs: Folder of the TensorBoard event files.
        metrics: Name of each metric and the tag of its scalar in the event files, `<tag>` or `<run>/<tag>`; the last
            value counts. A launcher on Kubernetes that does not mount the claim or NFS export has a pod read it.
    """

    model: Relative = "model"
    logs: Relative = "logs"
    metrics: Annotated[dict[MetricName, Filled], Meta(examples=[{"loss": "train/loss"}])] = {}


class Gang(_Base, frozen=True):
    """All replicas start together, or none does.

    Attributes:
        scheduler: Name of the scheduler that sees to it, where the job system has none of its own.
        min_available: Replicas that must find room together. Empty = all.
        timeout: Seconds that those with room wait for the others; then they give it back, and it is tried again. Empty
            = as the scheduler is configured.
    """

    scheduler: Filled = "scheduler-plugins-scheduler"
    min_available: Members | None = None
    timeout: Duration | None = None


class TensorBoard(_Base, frozen=True):
    """A TensorBoard over the job's event files.

    Attributes:
        log_dir: Folder below `output_dir`; empty = outputs.logs.
        image: Its image on a cluster; empty = the bundle's own.
        keep_for: Seconds it stays up after the job ended.
        idle: Seconds without a visit after which it is ended.
    """

    log_dir: Relative | None = None
    image: Image | None = None
    keep_for: Duration | None = None
    idle: Duration | None = None


class TrainingJob(_Base, frozen=True):
    """One distributed TensorFlow job.

    Attributes:
        name: Stem of the job object's name; a hash of run, task and attempt is added.
        roles: Who takes part.
        image: Container image of every role. Local runs do not use it.
        command: Program and its first arguments, for every role. Empty = the image's entrypoint; local runs need one.
        args: Further arguments.
        working_dir: Folder to start in; empty = the image's own, locally the job file's folder.
        env: Environment variables: text, or from a Secret, ConfigMap or pod field.
        resources: For every role that has none of its own.
        volumes: For every role.
        node_selector: Labels that a node must have.
        tolerations: Taints that are tolerated.
        labels: Put on the job and its pods.
        annotations: Put on the job and its pods. No Istio proxy is put into the pods unless
            `sidecar.istio.io/inject` is "true" here.
        service_account: The pods' ServiceAccount; empty = the namespace's default.
        image_pull_secrets: Names of Secrets.
        image_pull_policy: As in Kubernetes; empty = its default.
        pod: Kubernetes pod template merged over the rendered one, for every role.
        strategy: How the replicas work together, which decides what a lost one means. Empty = parameter_server where
            there are ps, single for one replica, else multi_worker_mirrored. between_graph is TensorFlow 1's ps and
            workers without a chief.
        restart: Which ends of a replica are tried again: never, on_failure (exit code not 0), always, exit_code (128
            and above).
        backoff_limit: Restarts of the whole job before it counts as failed. Default 3, with `restart: never` 0.
        success: chief = the chief's end decides (worker 0's where there is none); all_workers = every chief and worker
            must succeed.
        deadlines: When to give up.
        output_dir: Folder that all replicas see: a path (on a cluster an absolute one), or a URI such as
            gs://bucket/{run_id}. {name}, {run_id}, {task} are replaced. Empty = a folder of the run (local);
            tfsteps/{run_id}/{task} on the job's first claim or NFS export that is not read-only. Without one, what
            replicas write is lost with their pods, and the step's outputs model and logs stay empty.
        outputs: What is found there.
        tensorboard: Present = a TensorBoard is offered.
        on_end: What is left when the job has ended: keep everything, delete_pods, or delete the job. Empty =
            delete_pods on success, keep on failure.
        keep_for: Seconds after which the janitor removes what was kept; empty = never.
        on_evicted: What becomes of the job when its launcher's pod is evicted or deleted and no other pod follows: stop
            deletes it; a duration keeps it for so long, for a retry of the run to adopt it, and then Kubernetes deletes
            it. Empty = stop.
        gang: Present = all replicas start together, or none does.
        queue: Queue of the job system.
        priority: 0 (lowest) to 100.
        systems: Options that only one job system knows, by its name.
    """

    name: Name
    roles: Annotated[Roles, Meta(examples=[{"worker": {"replicas": 2}}])]
    image: Image | None = None
    command: Command = ()
    args: Arguments = ()
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
    gang: Gang | None = None
    queue: Filled | None = None
    priority: Priority | None = None
    systems: dict[str, dict[str, Any]] = {}

    def resolved_roles(self) -> dict[RoleName, ResolvedRole]:
        """Return the roles with what they take from the job, in the order chief, worker, ps, evaluator."""
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

    @property
    def effective_strategy(self) -> Strategy:
        """The strategy, inferred from the roles where it is not given."""
        if self.strategy:
            return self.strategy
        if self.roles.ps:
            return "parameter_server"
        trainers = [role.replicas for name, role in self.roles.items() if name in ("chief", "worker")]
        return "single" if sum(trainers) <= 1 else "multi_worker_mirrored"

    @property
    def decisive_replica(self) -> tuple[RoleName, int]:
        """Role and index of the replica whose end is the job's: the chief, else worker 0."""
        return ("chief", 0) if self.roles.chief else ("worker", 0)

    @property
    def effective_backoff_limit(self) -> int:
        """The shared backoff limit, its default filled in."""
        if self.backoff_limit is None:
            return 0 if self.restart == "never" else 3
        return self.backoff_limit
