"""The permissions that a launcher needs, and those that the cluster denies."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tfsteps.kube.client import Api, Resource
from tfsteps.kube.errors import ApiError
from tfsteps.kube.logs import PODS
from tfsteps.spec import TrainingJob

_RULES = Resource("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview")
_ACCESS = Resource("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")


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

    Reading its own pod and watching its own Workflow are optional: without them a launcher continues, and warns.
    """
    permissions = [Permission(verb, resource) for verb in ("get", "create", "list", "watch", "patch", "delete")]
    permissions += [Permission("list", PODS), Permission("watch", PODS), Permission("get", PODS, "log"), *more]
    return [*permissions, Permission("delete", PODS)] if job.on_end in (None, "delete_pods") else permissions


def granting(system: str, permissions: Iterable[Permission]) -> str:
    """Return whose Roles grant `permissions` to launchers on a job system."""
    folder = "manifests/base" if system == "kubeflow" else f"manifests/systems/{system}"
    folders = sorted({"manifests/base" if permission.resource == PODS else folder for permission in permissions})
    return f"{' and of '.join(folders)} (or what `tfsteps role {system}` prints)"


def denied(api: Api, namespace: str, permissions: Iterable[Permission]) -> list[Permission]:
    """Return those of `permissions` that are certainly denied.

    One request lists the granted permissions, and usually suffices. The list may be incomplete (authorization webhooks
    cannot list), so each permission that is not on it is checked by its own request.
    """
    try:
        rules = api.review(_RULES, {"namespace": namespace}).get("resourceRules") or []
    except ApiError:
        return []
    missing = [permission for permission in permissions if not any(_grants(rule, permission) for rule in rules)]
    return [permission for permission in missing if _refused(api, namespace, permission)]


def _grants(rule: Mapping[str, Any], permission: Permission) -> bool:
    """Tell whether a rule grants a permission on objects of any name."""
    resources = {permission.plural, "*", *([f"*/{permission.subresource}"] if permission.subresource else [])}
    return (
        not {permission.verb, "*"}.isdisjoint(rule.get("verbs") or [])
        and not {permission.group, "*"}.isdisjoint(rule.get("apiGroups") or [])
        and not resources.isdisjoint(rule.get("resources") or [])
        and not rule.get("resourceNames")
    )


def _refused(api: Api, namespace: str, permission: Permission) -> bool:
    attributes = {
        "namespace": namespace,
        "verb": permission.verb,
        "group": permission.group,
        "resource": permission.resource.plural,
        "subresource": permission.subresource,
    }
    try:
        return api.review(_ACCESS, {"resourceAttributes": attributes}).get("allowed") is False
    except ApiError:
        return False
