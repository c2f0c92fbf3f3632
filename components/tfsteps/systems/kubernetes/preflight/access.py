"""Which permissions of a launcher the cluster certainly denies."""

from collections.abc import Iterable, Mapping
from typing import Any

from tfsteps.kube.client import Api, Resource
from tfsteps.kube.errors import ApiError
from tfsteps.systems.kubernetes.permissions import Permission

_RULES = Resource("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview")
_ACCESS = Resource("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")


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
