"""Chooses the job system for a cluster by the APIs that it serves, if none is named."""

import functools
from collections.abc import Mapping

import msgspec

from tfsteps.kube.answers import of_kind
from tfsteps.kube.client import Api, Resource
from tfsteps.kube.errors import ApiError

DEFAULT = "kubeflow"
"""The job system if the cluster serves none that is known, or is not asked."""


class Choice(msgspec.Struct, frozen=True):
    """A job system, and why it was chosen."""

    system: str
    reason: str

    def sentence(self, override: str) -> str:
        """Return it as one sentence; `override` is the option that chooses another: `--system NAME`."""
        return f"{self.system}: {self.reason}; {override} overrides"


class _Version(msgspec.Struct):
    group_version: str = msgspec.field(name="groupVersion", default="")


class _Group(msgspec.Struct):
    versions: list[_Version] = []


class _Groups(msgspec.Struct):
    groups: list[_Group]


class _Listed(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Listed]


def choose(api: Api, candidates: Mapping[str, Resource]) -> Choice:
    """Return which of the `candidates` to use on a cluster.

    A restarted launcher must choose as the first one did, so what the cluster does not answer is no choice. One request
    lists the API groups. A group may have other resources (`kubeflow.org` has notebooks as well), so the group of each
    candidate is checked for the resource until one has it: usually two requests in all.

    Raises:
        ApiError: The cluster does not say which APIs it serves.
    """
    try:
        served = _served(api)
        for system, resource in candidates.items():
            if resource.api in served and resource.plural in _plurals(api, resource.api):
                return Choice(system, f"the cluster serves {_name(resource)}{_instead(system, candidates)}")
    except ApiError as error:
        message = f"the cluster does not say which APIs it serves ({error}); name a job system"
        raise ApiError(message, error.status, error.reason) from error
    return Choice(DEFAULT, f"the cluster serves none of {', '.join(map(_name, candidates.values()))}")


def _served(api: Api) -> set[str]:
    """Return `group/version` of every API except the core API."""
    ask = functools.partial(api.send, "GET", "/apis", check=of_kind("APIGroupList", _Groups))
    answer = msgspec.convert(api.settled(ask), type=_Groups)
    return {version.group_version for group in answer.groups for version in group.versions}


def _plurals(api: Api, group_version: str) -> set[str]:
    ask = functools.partial(api.send, "GET", f"/apis/{group_version}", check=of_kind("APIResourceList", _Resources))
    try:
        answer = api.settled(ask)
    except ApiError as error:
        if error.status == 404:  # removed since the groups were listed
            return set()
        raise
    return {resource.name for resource in msgspec.convert(answer, type=_Resources).resources}


def _name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.api.partition('/')[0]}"


def _instead(system: str, candidates: Mapping[str, Resource]) -> str:
    """Return which job systems the cluster lacks, if the last of the candidates is chosen; else an empty text."""
    *better, last = candidates
    return f" and none of {', '.join(_name(candidates[name]) for name in better)}" if better and system == last else ""
