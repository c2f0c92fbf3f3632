"""The settings of a platform: frozen types, and for each field its meaning and default."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec.fields import Filled, Limit, Name, ObjectName, Priority, ResourceName
from tfsteps.spec.pod import Env, Labels, Limits, Tolerations, Volumes
from tfsteps.spec.units import Cpu, Duration, Keeping, Memory

Registry = Annotated[
    str,
    Meta(
        pattern=r"^([a-zA-Z0-9\-]*[.:][a-zA-Z0-9.:\-]*|localhost)(/[a-z0-9._\-]+)*$",
        description="a registry and a path, without a slash at its end",
        examples=["registry.example/ml"],
    ),
]
Factor = Annotated[int, Meta(ge=1, le=10_000, description="a whole number from 1 to 10000", examples=[100])]
MostGpus = Annotated[int, Meta(ge=0, le=128, description="a whole number from 0 to 128", examples=[8])]
Replicas = Annotated[int, Meta(ge=1, le=40_000, description="a whole number from 1 to 40000", examples=[32])]
Headroom = Annotated[float, Meta(ge=0, le=10, description="a number from 0 to 10", examples=[0.4])]
EnoughRuns = Annotated[int, Meta(ge=1, le=1000, description="a whole number from 1 to 1000", examples=[10])]


class _SettingsStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class JobFields(_SettingsStruct, frozen=True):
    """Fields of a job file that a platform can set. Each has the meaning that it has there; empty = not set."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    image_pull_secrets: tuple[ObjectName, ...] = ()
    env: Env = {}
    volumes: Volumes = ()
    labels: Labels = {}
    annotations: Labels = {}
    service_account: ObjectName | None = None
    node_selector: Labels = {}
    tolerations: Tolerations = ()
    pod: dict[str, Any] = {}
    backoff_limit: Limit | None = None
    on_end: Literal["keep", "delete_pods", "delete"] | None = None
    keep_for: Duration | None = None
    on_evicted: Keeping | None = None
    priority: Priority | None = None
    queue: Filled | None = None
    cluster: Filled | None = None
    systems: dict[str, dict[str, Any]] = {}


class DefaultResources(_SettingsStruct, frozen=True):
    """Resources of replicas that set none. CPU and memory count separately, each with its limit."""

    cpu: Cpu | None = None
    memory: Memory | None = None
    limits: Limits = Limits()


class Defaults(JobFields, frozen=True):
    """Fields that jobs get unless they set them. Entries of lists and mappings are added to those of the job.

    Attributes:
        resources: CPU and memory of replicas that set neither request nor limit.
    """

    resources: DefaultResources = DefaultResources()


class ReplicaKind(_SettingsStruct, frozen=True):
    """What replicas of one kind need.

    Attributes:
        node_selector: Labels that their nodes must have; jobs cannot override them.
        tolerations: Added to those of the replicas.
    """

    node_selector: Labels = {}
    tolerations: Tolerations = ()


class Kinds(_SettingsStruct, frozen=True):
    """What replicas need by the GPUs that they use.

    Attributes:
        cpu: Replicas without GPUs.
        gpu: Replicas with whole GPUs.
        gpu_fraction: Replicas with a share of a GPU.
    """

    cpu: ReplicaKind = ReplicaKind()
    gpu: ReplicaKind = ReplicaKind()
    gpu_fraction: ReplicaKind = ReplicaKind()


class FractionResource(_SettingsStruct, frozen=True):
    """The resource that stands for shares of a GPU.

    Attributes:
        resource: Its name.
        per_gpu: Units of a whole GPU: with 100, a fraction of 0.25 is 25 units. A share that is no whole number of
            units is refused.
    """

    resource: ResourceName
    per_gpu: Factor


class Gpu(_SettingsStruct, frozen=True):
    """How the platform names GPUs.

    Attributes:
        resource: Resource of jobs that name no other. Empty = TFSTEPS_GPU_RESOURCE, otherwise nvidia.com/gpu.
        vendors: Resource by vendor, for `gpu_vendor`. A `gpu_type` that is the name of a vendor means the vendor. Case
            does not count.
        type_label: Node label whose value is the type of GPU. Empty = the job system's `gpu_label`.
        types: Node labels by type, for types that are not the value of `type_label`. Case does not count. If it is set
            and `type_label` is not, other types are refused.
        fraction: The resource for `gpu_fraction`. Empty = fractions are refused.
    """

    resource: ResourceName | None = None
    vendors: dict[str, ResourceName] = {}
    type_label: Filled | None = None
    types: dict[str, Labels] = {}
    fraction: FractionResource | None = None


class Caps(_SettingsStruct, frozen=True):
    """The most that a job may have. A limit that is left out does not apply.

    Attributes:
        cpu: CPU cores of one replica; a replica without a limit of CPU is refused.
        memory: Bytes of one replica; a replica without a limit of memory is refused.
        gpu: GPUs of one replica.
        replicas: Replicas of a job, of all roles.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None
    gpu: MostGpus | None = None
    replicas: Replicas | None = None


class RunSettings(_SettingsStruct, frozen=True):
    """How long Argo keeps the runs that `tfsteps submit` creates. What a Workflow says itself counts before.

    Attributes:
        keep_succeeded: Seconds after which Argo deletes a Workflow that has succeeded, and with it its jobs. Empty =
            Argo's own default.
        keep_failed: The same for a Workflow that has failed or was stopped.
        delete_pods: Which finished pods of steps Argo deletes at once: success = those that succeeded, completion =
            all. Empty = Argo's own default. The pods of replicas belong to their job.
    """

    keep_succeeded: Duration | None = None
    keep_failed: Duration | None = None
    delete_pods: Literal["success", "completion"] | None = None


class Tuning(_SettingsStruct, frozen=True):
    """How `tfsteps tune` recommends CPU and memory.

    Attributes:
        headroom: Added to the largest use, as a share of it. Empty = 0.4.
        runs: Good runs that are needed for a recommendation. Empty = 10.
    """

    headroom: Headroom | None = None
    runs: EnoughRuns | None = None


class KubeconfigSecret(_SettingsStruct, frozen=True):
    """Where a kubeconfig is: in a Secret of the namespace of the settings.

    Attributes:
        secret: Name of the Secret.
        key: Its key. Empty = the name of the cluster.
    """

    secret: ObjectName = "tfsteps-clusters"  # noqa: S105  a name
    key: Filled | None = None


class Cluster(_SettingsStruct, frozen=True):
    """Another cluster, on which jobs can run.

    Attributes:
        kubeconfig: Where its kubeconfig is.
        context: A context of that kubeconfig. Empty = its current one.
        namespace: Namespace of the jobs there. Empty = that of the context.
    """

    kubeconfig: KubeconfigSecret = KubeconfigSecret()
    context: Filled | None = None
    namespace: ObjectName | None = None


class Layer(_SettingsStruct, frozen=True):
    """The settings of a platform or a project.

    Attributes:
        contact: Who can change the settings, for messages.
        defaults: Fields that jobs get unless they set them. Those of the project count before those of the platform.
        required: Fields that jobs get; a job with another value is refused.
        kinds: What replicas need by the GPUs that they use.
        gpu: How GPUs are named. What a project sets counts before the platform's.
        limits: The most that a job may have. What a project sets counts before the platform's.
        image_registry: Put before images that name no registry.
        runs: How long runs on Argo Workflows are kept. What a project sets counts before the platform's.
        tuning: How CPU and memory are recommended. What a project sets counts before the platform's.
        clusters: Other clusters, by the names that the field `cluster` of a job takes. A project's counts before the
            platform's of the same name.
    """

    contact: Filled | None = None
    defaults: Defaults = Defaults()
    required: JobFields = JobFields()
    kinds: Kinds = Kinds()
    gpu: Gpu = Gpu()
    limits: Caps = Caps()
    image_registry: Registry | None = None
    runs: RunSettings = RunSettings()
    tuning: Tuning = Tuning()
    clusters: dict[Name, Cluster] = {}


class Project(Layer, frozen=True):
    """The settings of one project. They add to the platform's.

    Attributes:
        namespaces: Namespaces whose jobs belong to it.
    """

    namespaces: tuple[ObjectName, ...] = ()


class Settings(Layer, frozen=True):
    """The settings of a platform.

    Attributes:
        projects: Settings of projects by name.
    """

    projects: dict[Name, Project] = {}

    def layers(self, namespace: str) -> "list[tuple[str, Layer]]":
        """Return the platform's settings, then those of the namespace's project, each with its prefix in messages."""
        named = [(f"projects.{name}.", p) for name, p in self.projects.items() if namespace in p.namespaces]
        return [("", self), *named]

    def clusters_of(self, namespace: str) -> dict[str, Cluster]:
        """Return the other clusters that jobs of a namespace can run on, by name."""
        return {name: cluster for _, layer in self.layers(namespace) for name, cluster in layer.clusters.items()}
