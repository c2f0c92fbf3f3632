"""The differences between kinds of job objects, for the code that creates and follows them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.runs.events import ReplicaChanged, ReplicaName, ReplicaState, Verdict
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import MOST_REPLICAS, Problem, RoleName, TrainingJob
from tfsteps.systems import capabilities
from tfsteps.systems.capabilities import Capability
from tfsteps.systems.kubernetes.permissions import Permission
from tfsteps.systems.kubernetes.render import pod_template

if TYPE_CHECKING:
    from tfsteps.kube.client import Api

DEPENDENTS = "dependents"
"""Key of an observed job object, never sent: the listed objects of its kind that it owns."""

GONE = "gone"
"""Key of such a dependent, never sent: it was deleted, and this is its last state."""


class TensorBoardLink(msgspec.Struct, frozen=True, kw_only=True):
    """A TensorBoard beside a job, reached by a path of the API server, or by `status.url` of an object.

    Attributes:
        path: From the API server's root, as `kubectl proxy` serves it; empty = read `status.url` of the object.
        resource: The kind of the object; None = no object.
        name: The object's name.
        note: A problem of the TensorBoard; empty = none.
    """

    path: str = ""
    resource: Resource | None = None
    name: str = ""
    note: str = ""


class RenderedJob(msgspec.Struct, frozen=True):
    """The objects to create for a job.

    Attributes:
        manifest: The job object. It is suspended if it must not start before its dependents exist.
        dependents: Further manifests. They are created after the job object, which owns them.
        unsuspend_patch: The merge patch that starts the job, applied once all dependents exist; empty = not needed, or
            a queue or a user starts it.
    """

    manifest: dict[str, Any]
    dependents: Sequence[Mapping[str, Any]] = ()
    unsuspend_patch: Mapping[str, Any] = {}

    @property
    def namespace(self) -> str:
        """The namespace of the job object."""
        return str(self.manifest["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The name of the job object."""
        return str(self.manifest["metadata"]["name"])

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the job object; changes are allowed."""
        annotations: dict[str, str] = self.manifest["metadata"]["annotations"]
        return annotations

    def observed(self) -> dict[str, Any]:
        """Return the job object as `JobKind.group_objects` would return it."""
        return {**self.manifest, DEPENDENTS: self.dependents} if self.dependents else self.manifest


class ReplicaEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a replica ended by its job object, which outlives its pod; when is not known.

    Attributes:
        replica: The replica.
        pod: Name of its pod.
        uid: Uid of that pod; empty = not known.
        exit_code: Of the program.
        stopped: Whether the operator may have ended it.
        restarts: Number of its restarts; 0 also if not known.
    """

    replica: ReplicaName
    pod: str
    uid: str
    exit_code: int
    stopped: bool = False
    restarts: int = 0

    def change(self, at: float) -> ReplicaChanged:
        """Return the event; `at` stands for the unknown time, in seconds since the epoch."""
        failed = ReplicaState.STOPPED if self.stopped else ReplicaState.FAILED
        return ReplicaChanged(
            at=at,
            replica=self.replica,
            state=failed if self.exit_code else ReplicaState.SUCCEEDED,
            restarts=self.restarts,
            exit_code=self.exit_code,
            place=self.pod,
        )


class RoleSpec(msgspec.Struct, frozen=True):
    """One role of a job object: how many replicas it has, and their pod template.

    Anybody may have written the object, so the number is checked here, before anything is made of it. ValueError if a
    job of tfsteps cannot have so many.

    Attributes:
        replicas: How many.
        template: The pod template.
        partial: Whether another object may add to the template: what the template lacks is not known.
    """

    replicas: int
    template: Mapping[str, Any]
    partial: bool = False

    def __post_init__(self) -> None:
        """Check the number of replicas."""
        if type(self.replicas) is not int or not 0 <= self.replicas <= MOST_REPLICAS:
            raise ValueError(f"a role has {self.replicas!r:.40} replicas; 0 to {MOST_REPLICAS} are possible")


class Between(msgspec.Struct, frozen=True):
    """A kind of objects between a job and its pods.

    Attributes:
        resource: Their kind.
        label: The label whose value is the job's name; empty = the one object has the job's name itself.
    """

    resource: Resource
    label: str = ""

    def selectors(self, name: str) -> dict[str, str]:
        """Return the selectors of those of the job called `name`, or of all jobs if it is empty."""
        if not name:
            return {"labelSelector": self.label} if self.label else {}
        return {"labelSelector": f"{self.label}={name}"} if self.label else {"fieldSelector": f"metadata.name={name}"}


class ObjectPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of objects of a job.

    Attributes:
        resource: Their kind.
        name: Name of the object; empty = use `selector`.
        selector: Label selector of objects; only the selected objects that belong to the job are changed.
        patch: Merged into the object; None = delete it.
    """

    resource: Resource
    name: str = ""
    selector: str = ""
    patch: Mapping[str, Any] | None = None


class JobKind(Protocol):
    """One kind of job object. All of it is pure.

    Attributes:
        name: The job system's.
        resource: The objects' API and kind.
        operator: The operator's name in messages.
        container: Name of the container that trains.
        capabilities: Its capabilities, by the names of `features.FEATURES`.
        shell: Starts a shell in that container, with the variables of the program beside it. If it has several words,
            a name and a command after them start that command instead.
        between: What the job owns and what controls its pods, from the job to the pods; pods may also be controlled by
            the job itself.
    """

    name: str
    resource: Resource
    operator: str
    container: str
    capabilities: Mapping[str, Capability]
    shell: Sequence[str]
    between: Sequence[Between]

    def permissions(self, job: TrainingJob) -> list[Permission]:
        """Return the permissions that a launcher of `job` needs beside those for every kind."""

    def spec_problems(self, job: TrainingJob) -> list[Problem]:
        """Return why `job` cannot be an object of this kind."""

    def warnings(self, job: TrainingJob) -> list[str]:
        """Return a sentence for each field of `job` that has no effect, or another one, in this kind."""

    def render(self, job: TrainingJob, identity: Identity, paths: OutputPaths, namespace: str) -> RenderedJob:
        """Return the objects to create for `job`, in the newest version of their API."""

    def explain_rejection(self, _item: Mapping[str, Any], refusal: str) -> str:
        """Return the cause of a `refusal` by the API server, and what to do; empty = the refusal is clear."""

    def older(self, job: TrainingJob, manifest: Mapping[str, Any], refusal: str) -> dict[str, Any] | None:
        """Return `manifest` of `job` for the version of its API before, if a `refusal` shows that the cluster has it.

        None = the refusal shows no older version. LaunchError if that version cannot express the job.
        """

    def watch_selector(self, name: str) -> dict[str, str]:
        """Return what to list and watch for the job called `name`: a field selector, or a label selector."""

    def group_objects(self, items: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
        """Return the job objects among `items`, objects of `resource`; with their dependents under DEPENDENTS."""

    def verdict(self, item: Mapping[str, Any]) -> Verdict:
        """Return the verdict of a job object."""

    def roles(self, item: Mapping[str, Any]) -> dict[RoleName, RoleSpec]:
        """Return the roles of a job object, in the order chief, worker, ps, evaluator."""

    def selector(self, name: str) -> str:
        """Return the label selector of the pods of the job called `name`."""

    def replica(self, meta: Mapping[str, Any], replicas: Sequence[ReplicaName]) -> ReplicaName | None:
        """Return which replica a pod is; None = it is not a replica.

        Args:
            meta: The pod's metadata.
            replicas: All replicas of the job, by role and index, for kinds that number them consecutively.
        """

    def restart_limit(self, job: TrainingJob) -> int:
        """Return how many restarts all replicas together may have; the launcher ends a job that has more."""

    def pod_labels(self, item: Mapping[str, Any], replica: ReplicaName) -> dict[str, str]:
        """Return the labels that the launcher adds to a replica's pod if the operator does not copy them."""

    def other_name(self, item: Mapping[str, Any]) -> str:
        """Return a name by which the operator's users know a job, beside that of its object; empty = none."""

    def pause(self, item: Mapping[str, Any], *, paused: bool) -> list[ObjectPatch]:
        """Return the patches that stop a job's pods, or start them again; empty = it cannot be paused."""

    def tensorboard_link(self, item: Mapping[str, Any]) -> TensorBoardLink | None:
        """Return the TensorBoard that the operator runs for a job; None = none, or not yet."""

    def replica_ends(self, item: Mapping[str, Any], replicas: Sequence[ReplicaName]) -> Iterable[ReplicaEnd]:
        """Return the ends of replicas that the job object itself names, for those whose pods are gone."""

    def stop_stragglers(self, item: Mapping[str, Any]) -> list[ObjectPatch]:
        """Return the patches that end replicas which an ended job leaves running; empty = its operator ends them."""


class BaseJobKind:
    """Defaults for most kinds: a job is one object, and its operator ends its dependents."""

    resource: Resource
    capabilities: Mapping[str, Capability]
    shell: Sequence[str] = ("sh",)
    between: Sequence[Between] = ()

    def spec_problems(self, job: TrainingJob) -> list[Problem]:
        return [
            *pod_template.pod_problems(job),
            *capabilities.spec_problems(job, self.capabilities),
            *self.rules(job),
        ]

    def warnings(self, job: TrainingJob) -> list[str]:
        return [*capabilities.warnings(job, self.capabilities), *self.differences(job)]

    def rules(self, _job: TrainingJob) -> Iterable[Problem]:
        """Return the problems that no feature alone causes: values, and combinations of features."""
        return []

    def differences(self, _job: TrainingJob) -> Iterable[str]:
        """Return a sentence for each feature in a job that has another effect than on most job systems."""
        return []

    def permissions(self, _job: TrainingJob) -> list[Permission]:
        """Return nothing."""
        return []

    def explain_rejection(self, _item: Mapping[str, Any], _refusal: str) -> str:
        """Return nothing."""
        return ""

    def older(self, _job: TrainingJob, _manifest: Mapping[str, Any], _refusal: str) -> dict[str, Any] | None:
        """Return None: its API has one version."""
        return None

    def watch_selector(self, name: str) -> dict[str, str]:
        """Return what to list and watch: the object of that name."""
        return {"fieldSelector": f"metadata.name={name}"}

    def group_objects(self, items: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
        """Return the items as they are."""
        return items

    def restart_limit(self, job: TrainingJob) -> int:
        """Return the job's limit and those of its roles."""
        return job.effective_backoff_limit + sum(role.backoff_limit or 0 for _, role in job.roles.items())

    def pod_labels(self, _item: Mapping[str, Any], _replica: ReplicaName) -> dict[str, str]:
        """Return nothing: pods have the labels of their template."""
        return {}

    def other_name(self, _item: Mapping[str, Any]) -> str:
        """Return nothing."""
        return ""

    def stop_stragglers(self, _item: Mapping[str, Any]) -> list[ObjectPatch]:
        """Return nothing."""
        return []

    def replica_ends(self, _item: Mapping[str, Any], _replicas: Sequence[ReplicaName]) -> Iterable[ReplicaEnd]:
        """Return nothing: only pods have the ends of replicas."""
        return []

    def tensorboard_link(self, _item: Mapping[str, Any]) -> TensorBoardLink | None:
        """Return nothing."""
        return None


def true_conditions(item: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the conditions of an object that hold, by type. Those that no longer hold stay listed with "False"."""
    conditions = (item.get("status") or {}).get("conditions") or []
    return {condition["type"]: condition for condition in conditions if condition.get("status") == "True"}


def tensorboard_address(api: "Api", link: TensorBoardLink, namespace: str) -> str:
    """Return the address of a TensorBoard for a browser; empty = none yet, or not permitted."""
    if link.resource is None:
        return api.access.server + link.path
    try:
        item: dict[str, Any] = api.get(link.resource, namespace, link.name)
    except ApiError:
        return ""
    return str((item.get("status") or {}).get("url") or "")


def create(
    api: "Api", kind: JobKind, job: TrainingJob, rendered: RenderedJob, *, dry_run: bool = False, once: bool = False
) -> dict[str, Any]:
    """Create the job object and return it; once more as an older version if the API server does not know a field.

    The request itself finds out the version: such a refusal comes before everything else and creates nothing. Whatever
    else is answered, or not answered, says nothing about the version.

    Args:
        api: The cluster.
        kind: Of the object.
        job: The job.
        rendered: What is rendered for it: the newest version.
        dry_run: Store nothing.
        once: Send each version once.

    Raises:
        ApiError: The API server refuses the object, or is unavailable.
        LaunchError: The cluster's version cannot express the job.
    """
    manifest = rendered.manifest
    while True:
        try:
            return api.create(kind.resource, rendered.namespace, manifest, dry_run=dry_run, once=once)
        except ApiError as error:
            older = kind.older(job, manifest, str(error)) if error.reason == "BadRequest" else None
            if older is None:
                raise
            manifest = older
