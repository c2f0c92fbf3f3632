"""Chooses the job system for a cluster by the APIs that it serves and permits, if none is named."""

import functools
from collections.abc import Mapping, Sequence

import msgspec

from tfsteps import typed_json
from tfsteps.kube.answers import of_kind
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.systems.kubernetes.permissions import Permission, permitted

DEFAULT = "kubeflow"
"""The job system if the cluster serves none that is known, or is not asked."""


class Choice(msgspec.Struct, frozen=True):
    """A job system, and why it was chosen."""

    system: str
    reason: str

    def sentence(self, override: str) -> str:
        """Return it as one sentence; `override` is the option that chooses another: `--system NAME`."""
        return f"{self.system}: {self.reason}; {override} overrides"


class _ApiGroupVersion(msgspec.Struct):
    group_version: str = msgspec.field(name="groupVersion", default="")


class _ApiGroup(msgspec.Struct):
    versions: list[_ApiGroupVersion] = []


class _ApiGroupList(msgspec.Struct):
    groups: list[_ApiGroup]


class _ApiResource(msgspec.Struct):
    name: str = ""


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource]


def choose(
    api: Api, namespace: str, candidates: Mapping[str, Resource], task: Mapping[str, str] | None = None
) -> Choice:
    """Return which of the `candidates` to use in a namespace: the first that is served and not certainly forbidden.

    A restarted launcher must choose as the first one did, although a cluster may have got an operator or a permission
    since then. So a task stays on the job system that has a job of it, and what the cluster does not answer is no
    choice. Usually five requests: the API groups; the resources of the first candidate's group, which may have others
    (`kubeflow.org` has notebooks as well); the permission; and a list of each other candidate that is served.

    Args:
        api: The cluster.
        namespace: Where the job will be.
        candidates: What each job system creates, the preferred one first.
        task: The labels of the task's jobs; None = do not look for them.

    Raises:
        ApiError: The cluster does not say which APIs it serves, or whether the task has a job.
    """
    try:
        versions = _versions(api)
        present = {system: resource for system, resource in candidates.items() if resource.api in versions}
        choice = _permitted(api, namespace, candidates, present)
    except ApiError as error:
        raise _undecided("the cluster does not say which APIs it serves", error) from error
    if task is None or choice.system not in present:
        return choice
    try:
        others = [system for system in present if system != choice.system]
        holders = [system for system in others if _has_job(api, namespace, present[system], task)]
        if holders and not _has_job(api, namespace, present[choice.system], task):
            return Choice(holders[0], f"{_name(present[holders[0]])} has a job of this task")
    except ApiError as error:
        raise _undecided("whether the task has a job on another job system is not known", error) from error
    return choice


def served(api: Api, candidates: Mapping[str, Resource]) -> set[str]:
    """Return which of the `candidates` the cluster serves. ApiError if it does not say."""
    versions = _versions(api)
    return {
        system
        for system, resource in candidates.items()
        if resource.api in versions and resource.plural in _plurals(api, resource.api)
    }


def _permitted(api: Api, namespace: str, candidates: Mapping[str, Resource], present: Mapping[str, Resource]) -> Choice:
    """Return the first candidate that is served and may be created; if none may be, the first that is served.

    A permission that is not known keeps the candidate: if it is missing, nothing can be created by mistake.
    """
    forbidden: list[str] = []
    for system, resource in present.items():
        if resource.plural not in _plurals(api, resource.api):
            continue
        answer = permitted(api, namespace, Permission("create", resource), once=False)
        if not answer.no:
            doubt = f"; whether it may be created is not known ({answer.why})" if answer.unknown else ""
            return Choice(
                system, f"the cluster serves {_name(resource)}{_instead(system, candidates, forbidden)}{doubt}"
            )
        forbidden.append(system)
    if forbidden:
        names = ", ".join(_name(candidates[system]) for system in forbidden)
        return Choice(forbidden[0], f"the cluster serves {names}, and none may be created in namespace {namespace}")
    return Choice(DEFAULT, f"the cluster serves none of {', '.join(map(_name, candidates.values()))}")


def _has_job(api: Api, namespace: str, resource: Resource, task: Mapping[str, str]) -> bool:
    """Tell whether a task has a job that this user may see."""
    selector = ",".join(f"{key}={value}" for key, value in task.items())
    try:
        return bool(api.list(resource, namespace, labelSelector=selector)["items"])
    except ApiError as error:
        if error.status in (403, 404):
            return False
        raise


def _undecided(what: str, error: ApiError) -> ApiError:
    return ApiError(f"{what} ({error}); name a job system", error.status, error.reason)


def _versions(api: Api) -> set[str]:
    """Return `group/version` of every API except the core API."""
    ask = functools.partial(api.send, "GET", "/apis", check=of_kind("APIGroupList", _ApiGroupList))
    answer = typed_json.convert(api.settled(ask), _ApiGroupList)
    return {version.group_version for group in answer.groups for version in group.versions}


def _plurals(api: Api, group_version: str) -> set[str]:
    ask = functools.partial(
        api.send, "GET", f"/apis/{group_version}", check=of_kind("APIResourceList", _ApiResourceList)
    )
    try:
        answer = api.settled(ask)
    except ApiError as error:
        if error.status == 404:  # removed since the groups were listed
            return set()
        raise
    return {resource.name for resource in typed_json.convert(answer, _ApiResourceList).resources}


def _name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.api.partition('/')[0]}"


def _instead(system: str, candidates: Mapping[str, Resource], forbidden: Sequence[str]) -> str:
    """Return why no better one was chosen: those that may not be created, and for the last one those not served."""
    *better, last = candidates
    lacking = [_name(candidates[name]) for name in better if name not in forbidden] if system == last else []
    unserved = f" and none of {', '.join(lacking)}" if lacking else ""
    names = ", ".join(f"{_name(candidates[name])} (`tfsteps role {name}` prints a Role for it)" for name in forbidden)
    return f"{unserved}; it is not permitted to create {names}" if forbidden else unserved
