"""List-watch: what some objects are now, and every change from then on, for hours, whatever happens in between."""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tfsteps.kube import answers, threads
from tfsteps.kube.client import Api, Resource
from tfsteps.kube.errors import ApiError, SilentError, Stopped, UnexpectedAnswerError
from tfsteps.kube.http_client import checked

_WATCH_SECONDS = 3300  # how long the server keeps a watch open; then everything is listed again, as a safety net
_QUIET_SECONDS = 150.0  # bookmarks come once a minute: longer silence means that nobody is there
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_LONGEST_EVENT = 1 << 24
_LONG_SECONDS = 30.0  # a watch that lasted so long was a good one, however it ended
_BOOKMARKS = {"allowWatchBookmarks": "true"}
_DENIED = {401, 403, 404, 405}


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
    """Nothing can be seen (any more): the last thing that a watch reports.

    Attributes:
        error: Why.
        status: The HTTP status; 0 = the watch itself failed.
        retryable: Whether another try may help: it was allowed before, or something else than the API server answered.
    """

    error: str
    status: int
    retryable: bool = True


Seen = Listed | Changed | Deleted | Refused


class Watch:
    """A list-watch of `resource` in `namespace`, in a thread of its own.

    An outage is waited out, with pauses that grow to half a minute and begin anew after a good stretch. A refusal, or
    an answer that is not the API server's, is waited out for `api.patience`. Where only the watch is refused, the lists
    between tell what changes. Once `api.stopping` is set it ends with what comes next: a bookmark, within a minute.

    Attributes:
        failing_since: Since when nothing can be seen, by the monotonic clock; None = it can.
        error: What failed last; empty = nothing has.
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
        """Begin.

        Args:
            api: The cluster.
            resource: What to watch.
            namespace: Where.
            put: Takes each event, in the watch's thread. While it blocks, the watch waits.
            sought: Name and uid of an object that is reported to be gone only once a GET has confirmed it.
            believe_first_refusal: Do not wait if looking is refused before anything was seen.
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
        """Whether the server answers: what was listed is known, and no request has failed since."""
        return self._listed and self.failing_since is None

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
        """Note a failure; return the end of the watch if it has lasted for too long. An outage never does."""
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
        """List, and follow every change until all is to be listed again."""
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
        """Say what is there, and return the version of that list."""
        listing = self._api.list(self._resource, self._namespace, once=True, **self._selectors)
        items = listing["items"] or []
        if self._sought and self._sought[1] not in [item["metadata"]["uid"] for item in items]:
            self._confirm_gone()
        self.failing_since, self._refused_since, self._listed = None, None, True
        self._put(Listed(items))
        return str(listing["metadata"]["resourceVersion"])

    def _confirm_gone(self) -> None:
        """Return if the object that is sought is gone. ApiError if it is there, or nobody knows: look again then."""
        name, uid = self._sought or ("", "")
        if not self._api.gone(self._resource, self._namespace, name, uid):
            raise ApiError(f"{self._resource.kind} {name} is there, but is not listed")

    def _follow(self, version: str) -> str:
        """Say every change since `version`; return the version to go on from, empty to list again, or to end."""
        whole = _WATCH_SECONDS * random.uniform(0.9, 1.1)  # noqa: S311  spreads launchers, no secret
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
                self._bookmarks = bool(self._bookmarks)  # an old server may have had nothing to say
                raise
            if response.rest:
                raise ApiError("the watch was cut in the middle of an event")
        lasted = time.monotonic() - began
        # at once, and without an event: something else than the API server may have answered
        nothing = version == first and lasted < _LONG_SECONDS
        return "" if nothing or lasted > 0.9 * whole else version

    def _event(self, line: bytes) -> str:
        """Say one change, and return its version."""
        event = checked(f"watch {self._resource.plural}", line, answers.an_event(self._resource))
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
            case _:  # ERROR, with a Status: 410 when our version is too old
                raise ApiError(item.get("message", kind), item.get("code", 0), item.get("reason", ""))
        return str(item["metadata"]["resourceVersion"])


def _pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1.5)  # noqa: S311
        pause = min(pause * 2, _LONGEST_PAUSE)
