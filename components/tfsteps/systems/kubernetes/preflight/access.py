"""What the cluster permits to the user of a client, and how to get more."""

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tfsteps.answer import NO, YES, Answer, unknown
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.systems.kubernetes.permissions import Permission

if TYPE_CHECKING:
    from tfsteps.kube.client import Api

_RULES = Resource("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview")
_ACCESS = Resource("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")
_USER = Resource("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview")
_ACCOUNT = "system:serviceaccount:"


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
