"""What a launcher must be allowed to do, what the cluster permits, and how to get more."""

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tfsteps.answer import NO, YES, Answer, unknown
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.spec import TrainingJob

if TYPE_CHECKING:
    from tfsteps.kube.client import Api

JOBS = Resource("batch/v1", "jobs", "Job")
CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
SERVICES = Resource("v1", "services", "Service")
TENSORBOARDS = Resource("tensorboard.kubeflow.org/v1alpha1", "tensorboards", "Tensorboard")
POD_METRICS = Resource("metrics.k8s.io/v1beta1", "pods", "PodMetrics")
_RULES = Resource("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview")
_ACCESS = Resource("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")
_USER = Resource("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview")
_ACCOUNT = "system:serviceaccount:"


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


def denied(api: "Api", namespace: str, permissions: Iterable[Permission]) -> list[Permission]:
    """Return those of `permissions` that are certainly denied.

    One request lists the granted permissions, and usually suffices. The list may be incomplete (authorization webhooks
    cannot list), so each permission that is not on it is checked by its own request.
    """
    try:
        rules = api.review(_RULES, {"namespace": namespace}).get("resourceRules") or []
    except ApiError:
        return []
    missing = [permission for permission in permissions if not any(_grants(rule, permission) for rule in rules)]
    return [permission for permission in missing if permitted(api, namespace, permission).no]


def permitted(api: "Api", namespace: str, permission: Permission, *, once: bool = True) -> Answer:
    """Return whether the cluster grants a permission on objects of any name.

    An authorizer that fails denies nothing: the review then has an error beside `allowed: false`.

    Args:
        api: The cluster.
        namespace: The namespace of the objects.
        permission: The permission.
        once: Send the request once, even if the API server is unavailable.
    """
    attributes = {
        "namespace": namespace,
        "verb": permission.verb,
        "group": permission.group,
        "resource": permission.resource.plural,
        "subresource": permission.subresource,
    }
    ask = functools.partial(api.review, _ACCESS, {"resourceAttributes": attributes})
    try:
        status = ask() if once else api.retry(ask)
    except ApiError as error:
        return unknown(error)
    if status.get("allowed") is True:
        return YES
    failure = status.get("evaluationError")
    return NO if status.get("allowed") is False and not failure else unknown(failure or "the review has no answer")


def how_to_grant(api: "Api", system: str, namespace: str) -> str:
    """Return the command that grants what launchers on a job system need to the user of `api`. Sends a request."""
    role = f"tfsteps role {system} --namespace {namespace}"
    user = _user(api)
    account = user.removeprefix(f"{_ACCOUNT}{namespace}:")
    if account != user:
        return f"grant it: `{role} --service-account {account} | kubectl apply -f -`"
    return f"bind the Role that `{role}` prints to {f'the user {user}' if user else 'its ServiceAccount'}"


def _user(api: "Api") -> str:
    """Return the name of the user that the API server sees; empty = not known."""
    try:
        info = api.review(_USER, {}).get("userInfo")
    except ApiError:
        return ""
    return str(info.get("username") or "") if isinstance(info, dict) else ""


def _grants(rule: Mapping[str, Any], permission: Permission) -> bool:
    """Tell whether a rule grants a permission on objects of any name."""
    resources = {permission.plural, "*", *([f"*/{permission.subresource}"] if permission.subresource else [])}
    return (
        not {permission.verb, "*"}.isdisjoint(rule.get("verbs") or [])
        and not {permission.group, "*"}.isdisjoint(rule.get("apiGroups") or [])
        and not resources.isdisjoint(rule.get("resources") or [])
        and not rule.get("resourceNames")
    )
