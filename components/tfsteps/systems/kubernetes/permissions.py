"""What a launcher must be allowed to do, and which Roles grant it. Pure."""

from collections.abc import Iterable

import msgspec

from tfsteps.kube.resource import PODS, Resource
from tfsteps.spec import TrainingJob

JOBS = Resource("batch/v1", "jobs", "Job")
CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
SERVICES = Resource("v1", "services", "Service")
TENSORBOARDS = Resource("tensorboard.kubeflow.org/v1alpha1", "tensorboards", "Tensorboard")
POD_METRICS = Resource("metrics.k8s.io/v1beta1", "pods", "PodMetrics")


class Permission(msgspec.Struct, frozen=True):
    """One verb on one kind of object. `str()` gives `create tfjobs.kubeflow.org`."""

    verb: str
    resource: Resource
    subresource: str = ""

    @property
    def group(self) -> str:
        """The API group; empty = Kubernetes' own."""
        return self.resource.api.rpartition("/")[0]

    @property
    def plural(self) -> str:
        """The resource as rules name it, its subresource included."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural

    def __str__(self) -> str:
        """Return it as `kubectl auth can-i` takes it."""
        return f"{self.verb} {self.plural}" + (f".{self.group}" if self.group else "")


def needed(resource: Resource, job: TrainingJob, more: Iterable[Permission] = ()) -> list[Permission]:
    """Return the permissions that are required to follow the job to its end, including `more`.

    Watching its own Workflow is optional: without that a launcher continues, and warns.
    """
    permissions = [Permission(verb, resource) for verb in ("get", "create", "list", "watch", "patch", "delete")]
    permissions += [Permission("list", PODS), Permission("watch", PODS), Permission("get", PODS, "log"), *more]
    if (source := job.code_source) and (not source.bucket or source.claim):
        permissions += [Permission(verb, CONFIG_MAPS) for verb in ("get", "create")]
    if source and source.claim:
        permissions += [Permission(verb, JOBS) for verb in ("get", "create", "delete")]
    if job.on_end in (None, "delete_pods"):
        permissions.append(Permission("delete", PODS))
    return [*dict.fromkeys(permissions)]  # a kind may need for itself what code needs, too


def optional(job: TrainingJob) -> list[Permission]:
    """Return the permissions without which a launcher of `job` continues, and warns of what it cannot do.

    They are for the launcher's own pod, which it reads and labels; for `on_evicted`; and for the usage over time.
    """
    permissions = [Permission(verb, PODS) for verb in ("get", "patch", "delete")]
    permissions += [Permission("list", POD_METRICS)]
    return permissions + [Permission(verb, JOBS) for verb in ("get", "create", "delete") if job.on_evicted]


OPT_IN = {
    "readers": [Permission(verb, PODS) for verb in ("get", "create", "delete")],
    "tensorboard": [
        *(Permission(verb, JOBS) for verb in ("get", "create", "patch", "delete")),
        *(Permission(verb, what) for what in (SERVICES, TENSORBOARDS) for verb in ("get", "create")),
    ],
}
"""Permissions to create more than jobs, which an operator grants by name, as `manifests/optional` has them.

`readers` are pods that read metrics and curves from a volume that the launcher does not mount. Without them, and
without `tensorboard`, a launcher continues and warns.
"""


def how_to_opt_in(name: str, refusal: object) -> str:
    """Return what grants the permissions of that name in `OPT_IN`; empty = not a lack of them is why it was refused."""
    missing = "cannot create resource" in str(refusal)  # else a policy or a quota refused the object
    return f"grant the launcher the permissions {name!r} (`tfsteps role SYSTEM --with {name}`)" if missing else ""
