"""What a container prints: each line once and in order, over restarts and however often the connection is cut."""

import datetime as dt
import re
import threading
from collections.abc import Callable, Iterator

from tfsteps.cluster.api import Api, ApiError, Resource, Stopped

PODS = Resource("v1", "pods", "Pod")
_LONGEST_LINE = (1 << 20) + 100  # a line of 1 MiB comes whole, its time stamp before it
_QUIET_SECONDS = 3600.0  # a program may be silent for long; whether the server is there, the watches tell
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.?(\d{0,9})(Z|[+-]\d\d:\d\d) ?")


class Position:
    """How far the log of a container has been read.

    The API resumes by the second. So whatever is read again starts with the last second that was seen, and what was
    seen of it is left out: lines before the last time stamp, and as many of that very stamp as there were.
    """

    def __init__(self) -> None:
        """Begin before the first line."""
        self._last = 0  # the time of the last line, in nanoseconds since the epoch
        self._seen = 0  # how many lines had that very time
        self._again = 0  # how many of those are still to come again
        self._second = (b"", 0)

    @property
    def mark(self) -> tuple[int, ...]:
        """Another value after each line, false before the first."""
        return (self._last, self._seen) if self._last else ()

    def resume(self) -> dict[str, str]:
        """Return what to ask the API for; `new` expects its answer then."""
        self._again = self._seen
        return {"sinceTime": _rfc3339(self._last // 10**9)} if self._last else {}

    def new(self, line: bytes) -> tuple[float, bytes] | None:
        """Return a line's time in seconds since the epoch and its text; None for one that was seen before."""
        at, text = self._parsed(line)
        if at < self._last:
            return None
        if at == self._last and self._again:
            self._again -= 1
            return None
        self._seen = self._seen + 1 if at == self._last else 1
        self._last = at
        return at / 1e9, text

    def _parsed(self, line: bytes) -> tuple[int, bytes]:
        """Return a line's time and text. A piece of a line too long for us has the time of what came before it."""
        found = _STAMP.match(line)
        if not found:
            return self._last, line
        second, fraction, zone = found.groups()
        if self._second[0] != second + zone:  # consecutive lines mostly share it
            self._second = second + zone, int(dt.datetime.fromisoformat((second + zone).decode()).timestamp())
        return self._second[1] * 10**9 + int(fraction.ljust(9, b"0")), line[found.end() :]


def read_log(
    api: Api, namespace: str, pod: str, container: str, position: Position, *, tail: int | None = None
) -> Iterator[tuple[float, bytes]]:
    """Yield what a container has printed since its last start, each line with its time in seconds since the epoch.

    Args:
        api: The cluster.
        namespace: The pod's.
        pod: Its name.
        container: Which of its containers.
        position: Where to go on from; it is moved on.
        tail: The last lines only, as many as this; None = all.

    Raises:
        ApiError: It cannot be read.
    """
    query = {"container": container, "timestamps": "true", **position.resume()}
    if tail is not None:
        query["tailLines"] = str(tail)
    with api.open("GET", PODS.path(namespace, pod, "log"), query) as response:
        for line in response.lines(_LONGEST_LINE):
            if new := position.new(line):
                yield new


class ContainerLog:
    """Reads all that one container of one pod prints, in a thread of its own."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        pod: str,
        container: str,
        *,
        put: Callable[[float, bytes], object],
        closed: Callable[[str], object],
        position: Position | None = None,
    ) -> None:
        """Begin; the container must have started.

        Args:
            api: The cluster.
            namespace: The pod's.
            pod: Its name.
            container: Which of its containers.
            put: Takes each line with its time in seconds since the epoch. While it blocks, reading waits.
            closed: Called once, at the end; with what was lost, or an empty text.
            position: Where to go on from; None = the beginning.
        """
        self._api = api
        self._path = PODS.path(namespace, pod, "log")
        self._query = {"container": container, "timestamps": "true"}
        self._put = put
        self._closed = closed
        self._told = (0, False)  # restarts, ended
        self._news = threading.Event()
        self._position = position or Position()
        threading.Thread(target=self._run, name=f"log {pod}", daemon=True).start()

    def tell(self, restarts: int, *, ended: bool) -> None:
        """Say how often the container was started again, and whether it has ended for good: the rest is read then."""
        if self._told != (restarts, ended):
            self._told = (restarts, ended)
            self._news.set()

    def _run(self) -> None:
        lost = ""
        try:
            lost = self._read_all()
        except Stopped:
            pass
        finally:
            self._closed(lost)

    def _read_all(self) -> str:
        """Read until the container has ended; return what was lost."""
        known, tries = 0, 0
        while not self._api.stopping.is_set():
            restarts, ended = self._told  # before reading: what ends meanwhile may have printed meanwhile
            self._news.clear()
            before = self._position.mark
            try:
                if restarts > known:
                    self._read(previous="true")
                    known = restarts
                self._read(follow="true")
            except ApiError as error:
                if error.status == 404:
                    return "" if self._position.mark else "the pod was deleted before its log could be read"
                if error.status == 403:
                    return str(error)
            else:
                if ended:
                    return ""
            tries = tries + 1 if before == self._position.mark else 0
            self._news.wait(_PAUSES[min(tries, len(_PAUSES) - 1)])
        return ""

    def _read(self, **which: str) -> None:
        query = {**self._query, **which, **self._position.resume()}
        with self._api.open("GET", self._path, query, read_seconds=_QUIET_SECONDS) as response:
            for line in response.lines(_LONGEST_LINE):
                if new := self._position.new(line):
                    self._put(*new)


def _rfc3339(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
