"""Job objects with dependents: all are created or none, changed together, and ended together."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.resource import Resource
from tfsteps.runs.identity import PREFIX
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.job_kind import ObjectPatch, RenderedJob

if TYPE_CHECKING:
    from tfsteps.kube.client import Api

UNFINISHED = f"{PREFIX}unfinished"
"""Annotation of a job object whose dependents do not all exist yet: the next launcher creates what is missing."""

_GARBAGE_SECONDS = 20.0
_PAUSE_SECONDS = 0.5


def complete(api: "Api", resource: Resource, item: Mapping[str, Any], rendered: RenderedJob) -> None:
    """Create the missing dependents of a job object, and let the job start.

    Args:
        api: The cluster.
        resource: Of the job object.
        item: The created job object.
        rendered: The rendered job.

    Raises:
        LaunchError: A dependent is refused. The job object is deleted, and with it the dependents that were created.
        ApiError: So it was, and whether the job object is deleted is not known.
    """
    meta = item["metadata"]
    owner = {"apiVersion": resource.api, "kind": resource.kind, "name": meta["name"], "uid": meta["uid"]}
    try:
        for manifest in rendered.dependents:
            metadata = {**manifest["metadata"], "ownerReferences": [owner]}
            create_dependent(api, meta["namespace"], {**manifest, "metadata": metadata})
        finished = {
            "metadata": {"uid": meta["uid"], "annotations": {UNFINISHED: None}},
            **rendered.unsuspend_patch,
        }
        api.patch(resource, meta["namespace"], meta["name"], finished)
    except ApiError as error:
        api.delete(resource, meta["namespace"], meta["name"], meta["uid"])
        message = f"the {resource.kind} is deleted again, because it could not be completed: {error}"
        raise LaunchError(message, retryable=error.unavailable) from error


def create_dependent(api: "Api", namespace: str, part: Mapping[str, Any]) -> None:
    """Create an object that has one owner, unless it exists.

    Raises:
        ApiError: The object is refused, or one of another owner keeps its name.
        Stopped: The client's `stopping` was set.
    """
    resource, give_up = _resource(part), time.monotonic() + _GARBAGE_SECONDS
    while True:
        try:
            api.create(resource, namespace, part)
        except ApiError as error:
            if error.status != 409:
                # a quota counts what an earlier request created whose answer was lost
                with contextlib.suppress(ApiError):
                    if not error.unavailable and _is_there(api, resource, namespace, part):
                        return
                raise
        else:
            return
        if _is_there(api, resource, namespace, part):
            return
        if time.monotonic() > give_up:
            what = f"{resource.kind} {namespace}/{part['metadata']['name']}"
            raise ApiError(f"{what} exists and is not this job's; delete it, or use another run id", 409)
        if api.stopping.wait(_PAUSE_SECONDS):  # until the garbage collector removes an earlier job's object
            raise Stopped


def _is_there(api: "Api", resource: Resource, namespace: str, part: Mapping[str, Any]) -> bool:
    try:
        item = api.get(resource, namespace, part["metadata"]["name"])
    except ApiError as error:
        if error.missing:
            return False
        raise
    return _owned(item, part["metadata"]["ownerReferences"][0]["uid"])


def _resource(part: Mapping[str, Any]) -> Resource:
    return Resource(part["apiVersion"], f"{part['kind'].lower()}s", part["kind"])


def _owned(item: Mapping[str, Any], uid: str) -> bool:
    return uid in [owner["uid"] for owner in item["metadata"].get("ownerReferences") or []]


def apply(api: "Api", changes: list[ObjectPatch], namespace: str, uid: str) -> None:
    """Patch objects of the job with this uid; objects that are gone are skipped. ApiError if refused."""
    for change in changes:
        for item in _meant(api, change, namespace):
            meta = item["metadata"]
            if uid != meta["uid"] and not _owned(item, uid):
                continue
            if change.patch is None:
                api.delete(change.resource, namespace, meta["name"], meta["uid"])
            else:
                patch = {**change.patch, "metadata": {**change.patch.get("metadata", {}), "uid": meta["uid"]}}
                api.patch(change.resource, namespace, meta["name"], patch)


def _meant(api: "Api", change: ObjectPatch, namespace: str) -> Iterator[Mapping[str, Any]]:
    if change.selector:
        yield from api.iterate(change.resource, namespace, labelSelector=change.selector)
        return
    try:
        yield api.get(change.resource, namespace, change.name)
    except ApiError as error:
        if not error.missing:
            raise
