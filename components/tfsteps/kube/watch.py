"""List-watch: lists objects, then reports each change, for hours, through outages and refusals."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tfsteps.kube import answers, backoff, threads
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError, SilentError, Stopped, UnexpectedAnswerError
from tfsteps.kube.http_client import checked
from tfsteps.kube.resource import Resource

_WATCH_SECONDS = 3300  # how long the server keeps a watch open; then all objects are listed again
_QUIET_SECONDS = 150.0  # bookmarks come once a minute: a longer silence means a dead connection
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_LONGEST_EVENT = 1 << 24
_LONG_SECONDS = 30.0  # a watch that lasted this long was a success, however it ended
_BOOKMARKS = {"allowWatchBookmarks": "true"}
_DENIED = {401, 403, 404, 405}


class Listed(msgspec.Struct, frozen=True):
    """All selected objects, now. An object seen before that is not in `items` is gone."""

    items: list[dict[str, Any]]


class Changed(msgspec.Struct, frozen=True):
    """One object was created or changed."""

    item: dict[str, Any]


class Deleted(msgspec.Struct, frozen=True):
    """One object is gone; `item` is its last state."""

    item: dict[str, Any]


class Refused(msgspec.Struct, frozen=True):
    """The objects cannot be watched (any more). A watch reports this last.

    Attributes:
        error: The reason.
        status: The HTTP status; 0 = the watch itself failed.
        retryable: Whether a retry may help: it was allowed before, or another program answered instead of the server.
    """

    error: str
    status: int
    retryable: bool = True


Seen = Listed | Changed | Deleted | Refused


class Watch:
    """A list-watch of `resource` in `namespace`, in its own thread.

    During an outage it retries for ever, with pauses that grow to 30 seconds and are reset after a long watch. After a
    refusal, or an answer that is not the API server's, it retries for `api.patience` seconds. If only watching is
    refused, repeated lists show the changes. Once `api.stopping` is set, it ends at its next event: a bookmark comes
    within a minute.

    Attributes:
        failing_since: When requests began to fail, by the monotonic clock; None = they succeed.
        error: The last failure; empty = none.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        namespace: str,
        put: Callable[[Seen], object],
        *,
        sought: tuple[str, str] | None = None,
        believe_first_refusal: bool = False,
        **selectors: str,
    ) -> None:
        """Start the watch.

        Args:
            api: The cluster.
            resource: The kind of the objects.
            namespace: The namespace.
            put: Takes each event, in the watch's thread. While it blocks, the watch waits.
            sought: Name and uid of an object that is reported as gone only after a GET confirms it.
            believe_first_refusal: Do not retry if the first list is refused.
            selectors: `fieldSelector` and `labelSelector`.
        """
        self.failing_since: float | None = None
        self.error = ""
        self._api = api
        self._resource, self._namespace, self._selectors = resource, namespace, selectors
        self._put = put
        self._sought = sought
        self._believe_first_refusal = believe_first_refusal
        self._listed = False
        self._refused_since: float | None = None
        self._pauses = _pauses()
        self._bookmarks: bool | None = None  # whether this server sends them
        threads.start(f"watch {resource.plural}", self._run, self._failed)

    @property
    def connected(self) -> bool:
        """Whether the objects were listed and no request has failed since."""
        return self._listed and self.failing_since is None

    @property
    def refused_seconds(self) -> float:
        """For how long requests have been refused; 0 = the last one succeeded, or the server was unavailable."""
        since = self._refused_since
        return 0.0 if since is None else time.monotonic() - since

    def _run(self) -> None:
        while not self._api.stopping.is_set():
            try:
                self._look()
            except Stopped:
                return
            except ApiError as error:
                if refused := self._refusal(error):
                    self._put(refused)
                    return
                self._api.stopping.wait(max(next(self._pauses), error.retry_after))

    def _failed(self, why: str) -> None:
        self._put(Refused(f"the watch on {self._resource.plural} failed ({why}); report this", 0))

    def _refusal(self, error: ApiError) -> Refused | None:
        """Note a failure; return the end of the watch if it lasts too long. An outage never ends the watch."""
        now = time.monotonic()
        self.failing_since, self.error = self.failing_since or now, str(error)
        if error.unavailable and not (error.transient or isinstance(error, UnexpectedAnswerError)):
            self._refused_since = None
            return None
        if self._believe_first_refusal and not self._listed and error.status in _DENIED and not error.transient:
            return Refused(str(error), error.status, retryable=False)
        self._refused_since = self._refused_since or now
        lasted = now - self._refused_since >= self._api.patience
        return Refused(str(error), error.status) if lasted else None

    def _look(self) -> None:
        """List, then follow the changes until the next list is due."""
        version = self._list()
        while version and not self._api.stopping.is_set():
            began = time.monotonic()
            try:
                version = self._follow(version)
            finally:
                good = time.monotonic() - began > _LONG_SECONDS
                if good:
                    self._pauses = _pauses()
            if not good:
                self._api.stopping.wait(next(self._pauses))

    def _list(self) -> str:
        """Report all objects, and return the resourceVersion of the list."""
        items, version = self._api.listed(self._resource, self._namespace, **self._selectors)
        if self._sought and self._sought[1] not in [item["metadata"]["uid"] for item in items]:
            self._confirm_gone()
        self.failing_since, self._refused_since, self._listed = None, None, True
        self._put(Listed(items))
        return version

    def _confirm_gone(self) -> None:
        """Return if the `sought` object is gone. ApiError if it exists or if that is not known; then list again."""
        name, uid = self._sought or ("", "")
        if not self._api.gone(self._resource, self._namespace, name, uid):
            raise ApiError(f"{self._resource.kind} {name} is there, but is not listed")

    def _follow(self, version: str) -> str:
        """Report each change since `version`. Return the version to continue from; empty = list again, or end."""
        whole = backoff.spread(_WATCH_SECONDS, 0.1)
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": f"{whole:.0f}", **_BOOKMARKS}
        quiet = whole + _QUIET_SECONDS if self._bookmarks is False else _QUIET_SECONDS
        began, first = time.monotonic(), version
        path = self._resource.path(self._namespace)
        with self._api.open("GET", path, {**self._selectors, **query}, read_seconds=quiet) as response:
            try:
                for line in response.lines(_LONGEST_EVENT):
                    version = self._event(line)
                    if self._api.stopping.is_set():
                        return ""
            except SilentError:
                self._bookmarks = bool(self._bookmarks)  # a server without bookmarks may have had no events
                raise
            if response.rest:
                raise ApiError("the watch was cut in the middle of an event")
        lasted = time.monotonic() - began
        # it ended at once, without an event: another program may have answered instead of the API server
        nothing = version == first and lasted < _LONG_SECONDS
        return "" if nothing or lasted > 0.9 * whole else version

    def _event(self, line: bytes) -> str:
        """Report one change, and return its resourceVersion."""
        event = checked(f"watch {self._resource.plural}", line, answers.an_event(self._resource), self._resource.shape)
        kind, item = event["type"], event["object"]
        match kind:
            case "ADDED" | "MODIFIED":
                self._put(Changed(item))
            case "DELETED":
                if self._sought and self._sought[1] == item["metadata"]["uid"]:
                    self._confirm_gone()
                self._put(Deleted(item))
            case "BOOKMARK":
                self._bookmarks = True
            case _:  # ERROR, with a Status: 410 = the version is too old
                raise ApiError(item.get("message", kind), item.get("code", 0), item.get("reason", ""))
        return str(item["metadata"]["resourceVersion"])


def _pauses() -> Iterator[float]:
    yield from map(backoff.spread, backoff.pauses(_FIRST_PAUSE, _LONGEST_PAUSE))
