"""List-watch: what some objects are now, and every change from then on, for hours, whatever happens in between."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import msgspec

from tfsteps.cluster.api import Api, ApiError, Resource, SilentError, Stopped

_WATCH_SECONDS = 3300  # how long the server keeps a watch open; then everything is listed again, as a safety net
_QUIET_SECONDS = 150.0  # bookmarks come once a minute: longer silence means that nobody is there
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_LONGEST_EVENT = 1 << 24
_LONG_SECONDS = 60.0  # a watch that lasted so long was a good one
_BOOKMARKS = {"allowWatchBookmarks": "true"}
_PERMANENT = {401, 403, 404, 405}


class Listed(msgspec.Struct, frozen=True):
    """Everything that is selected, at this moment. What was seen before and is not among `items` is gone."""

    items: list[dict[str, Any]]


class Changed(msgspec.Struct, frozen=True):
    """One object is new, or has changed."""

    item: dict[str, Any]


class Deleted(msgspec.Struct, frozen=True):
    """One object is gone; `item` is its last state."""

    item: dict[str, Any]


class Refused(msgspec.Struct, frozen=True):
    """We may not look (any more): the last thing that a watch says."""

    error: str
    status: int


Seen = Listed | Changed | Deleted | Refused


class Watch:
    """A list-watch of `resource` in `namespace`, in a thread of its own.

    Every failure but a refusal is waited out, with pauses that grow to half a minute. Once `api.stopping` is set it
    ends with what comes next: a bookmark, within a minute.
    """

    def __init__(
        self, api: Api, resource: Resource, namespace: str, put: Callable[[Seen], object], **selectors: str
    ) -> None:
        """Begin.

        Args:
            api: The cluster.
            resource: What to watch.
            namespace: Where.
            put: Takes each event, in the watch's thread. While it blocks, the watch waits.
            selectors: `fieldSelector` and `labelSelector`.
        """
        self._api = api
        self._path = resource.path(namespace)
        self._selectors = selectors
        self._put = put
        self._bookmarks: bool | None = None  # whether this server sends them
        threading.Thread(target=self._run, name=f"watch {resource.plural}", daemon=True).start()

    def _run(self) -> None:
        pauses = _pauses()
        while not self._api.stopping.is_set():
            try:
                version = self._list()
                while version and not self._api.stopping.is_set():
                    began = time.monotonic()
                    version = self._follow(version)
                    if time.monotonic() - began > _LONG_SECONDS:
                        pauses = _pauses()
                    elif version:
                        self._api.stopping.wait(next(pauses))  # cut early: go on from where we were, with care
            except Stopped:
                return
            except ApiError as error:
                if error.status in _PERMANENT:
                    self._put(Refused(str(error), error.status))
                    return
                self._api.stopping.wait(max(next(pauses), error.retry_after))

    def _list(self) -> str:
        """Say what is there, and return the version of that list."""
        found = self._api.request("GET", self._path, self._selectors)
        self._put(Listed(found.get("items") or []))
        return str(found["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> str:
        """Say every change since `version`; return the version to go on from, empty to list again, or to end."""
        whole = _WATCH_SECONDS * random.uniform(0.9, 1.1)  # noqa: S311  spreads launchers, no secret
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": f"{whole:.0f}", **_BOOKMARKS}
        quiet = whole + _QUIET_SECONDS if self._bookmarks is False else _QUIET_SECONDS
        end = time.monotonic() + 0.9 * whole
        with self._api.open("GET", self._path, {**self._selectors, **query}, read_seconds=quiet) as response:
            try:
                for line in response.lines(_LONGEST_EVENT):
                    version = self._event(line)
                    if self._api.stopping.is_set():
                        return ""
            except SilentError:
                self._bookmarks = bool(self._bookmarks)  # an old server may have had nothing to say
                raise
            if response.rest:
                raise ApiError("the watch was cut in the middle of an event")
        return version if time.monotonic() < end else ""

    def _event(self, line: bytes) -> str:
        """Say one change, and return its version."""
        try:
            kind, item = itemgetter("type", "object")(msgspec.json.decode(line))
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise ApiError(f"the watch was cut in the middle of an event: {error}") from error
        match kind:
            case "ADDED" | "MODIFIED":
                self._put(Changed(item))
            case "DELETED":
                self._put(Deleted(item))
            case "BOOKMARK":
                self._bookmarks = True
            case _:  # ERROR, with a Status: 410 when our version is too old
                raise ApiError(item.get("message", kind), item.get("code", 0), item.get("reason", ""))
        return str(item["metadata"]["resourceVersion"])


def _pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1.5)  # noqa: S311
        pause = min(pause * 2, _LONGEST_PAUSE)
