"""What a launcher must be allowed to do, and what of it the cluster denies."""

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
        """Return it as people and `kubectl auth can-i` say it."""
        return f"{self.verb} {self.plural}" + (f".{self.group}" if self.group else "")


def needed(resource: Resource, job: TrainingJob, more: Iterable[Permission] = ()) -> list[Permission]:
    """Return the rights without which the job cannot be followed to its end, `more` among them.

    To read its own pod and to watch its own Workflow are not among them: a launcher does without, and says so.
    """
    rights = [Permission(verb, resource) for verb in ("get", "create", "list", "watch", "patch", "delete")]
    rights += [Permission("list", PODS), Permission("watch", PODS), Permission("get", PODS, "log"), *more]
    return [*rights, Permission("delete", PODS)] if job.on_end in (None, "delete_pods") else rights


def granting(system: str, rights: Iterable[Permission]) -> str:
    """Return whose Roles grant `rights` to launchers on a job system."""
    own = "manifests/base" if system == "kubeflow" else f"manifests/systems/{system}"
    folders = sorted({"manifests/base" if right.resource == PODS else own for right in rights})
    return f"{' and of '.join(folders)} (or what `tfsteps role {system}` prints)"


def denied(api: Api, namespace: str, rights: Iterable[Permission]) -> list[Permission]:
    """Return those of `rights` that we do not have for certain.

    One request lists what we may do, and is mostly all. That list need not be complete (webhooks that authorize cannot
    list), so what is not on it is asked for by itself.
    """
    try:
        rules = api.review(_RULES, {"namespace": namespace}).get("resourceRules") or []
    except ApiError:
        return []
    missing = [right for right in rights if not any(_grants(rule, right) for rule in rules)]
    return [right for right in missing if _refused(api, namespace, right)]


def _grants(rule: Mapping[str, Any], right: Permission) -> bool:
    """Tell whether a rule grants a right on objects of any name."""
    resources = {right.plural, "*", *([f"*/{right.subresource}"] if right.subresource else [])}
    return (
        not {right.verb, "*"}.isdisjoint(rule.get("verbs") or [])
        and not {right.group, "*"}.isdisjoint(rule.get("apiGroups") or [])
        and not resources.isdisjoint(rule.get("resources") or [])
        and not rule.get("resourceNames")
    )


def _refused(api: Api, namespace: str, right: Permission) -> bool:
    attributes = {
        "namespace": namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource.plural,
        "subresource": right.subresource,
    }
    try:
        return api.review(_ACCESS, {"resourceAttributes": attributes}).get("allowed") is False
    except ApiError:
        return False
