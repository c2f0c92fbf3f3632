"""A controller's loop: what is watched says which objects to look at, and each is looked at as a whole."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch

Key = tuple[str, str]
"""Namespace and name of an object."""

_AGAIN_SECONDS = 1.0
_log = logging.getLogger(__name__)


class Loop:
    """Calls `reconcile` for one key after another, in one thread."""

    def __init__(self, reconcile: Callable[[str, str], float | None]) -> None:
        """Look at nothing yet.

        Args:
            reconcile: Brings one object forward; returns in how many seconds to look again, None = when something
                changes.
        """
        self._reconcile = reconcile
        self._due: dict[Key, float] = {}
        self._changed = threading.Condition()

    def touch(self, namespace: str, name: str, seconds: float = 0.0) -> None:
        """Look at an object in `seconds`, or earlier if that was asked for already."""
        with self._changed:
            at = time.monotonic() + seconds
            self._due[namespace, name] = min(at, self._due.get((namespace, name), at))
            self._changed.notify()

    def watch(self, api: Api, resource: Resource, key: Callable[[Mapping[str, Any]], Key | None], **by: str) -> None:
        """Look at the object that `key` names whenever one of `resource` changes, in any namespace."""

        def put(seen: Seen) -> None:
            match seen:
                case Listed(items=items):
                    about = items
                case Changed(item=item) | Deleted(item=item):
                    about = [item]
                case Refused(error=error):
                    give_up(f"{resource.plural} cannot be watched: {error}")
            for owner in filter(None, map(key, about)):
                self.touch(*owner)

        Watch(api, resource, "", put, **by)

    def run(self) -> None:
        """Look at what is due, for ever."""
        while True:
            namespace, name = self._next()
            try:
                again = self._reconcile(namespace, name)
            except ApiError as error:  # most are conflicts: somebody was faster, and there is something new to look at
                _log.info("%s/%s: %s", namespace, name, error)
                again = _AGAIN_SECONDS
            if again is not None:
                self.touch(namespace, name, again)

    def _next(self) -> Key:
        with self._changed:
            while True:
                now = time.monotonic()
                key = min(self._due, key=lambda key: self._due[key], default=None)
                if key is not None and self._due[key] <= now:
                    del self._due[key]
                    return key
                self._changed.wait(None if key is None else self._due[key] - now)


def give_up(why: str) -> NoReturn:
    """End the process, from any thread: whoever started it starts it again."""
    _log.error(why)
    os._exit(1)


def itself(item: Mapping[str, Any]) -> Key:
    """Return an object's own key."""
    return item["metadata"]["namespace"], item["metadata"]["name"]


def owner(kind: str) -> Callable[[Mapping[str, Any]], Key | None]:
    """Return a function that gives the key of an object's owner of this kind."""

    def key(item: Mapping[str, Any]) -> Key | None:
        owners = item["metadata"].get("ownerReferences") or []
        names = [entry["name"] for entry in owners if entry["kind"] == kind]
        return (item["metadata"]["namespace"], names[0]) if names else None

    return key


def reference(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ownerReference to the object that controls others."""
    meta = item["metadata"]
    who = {"apiVersion": item["apiVersion"], "kind": item["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**who, "controller": True, "blockOwnerDeletion": True}


def ensure(api: Api, resource: Resource, namespace: str, body: Mapping[str, Any]) -> None:
    """Create an object; nothing if it is there."""
    whole = {"apiVersion": resource.api, "kind": resource.kind, **body}
    try:
        api.create(resource, namespace, whole)
    except ApiError as error:
        if error.status != 409:
            raise


def stamp(seconds: float | None = None) -> str:
    """Return a time as the API writes it; None = now."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
