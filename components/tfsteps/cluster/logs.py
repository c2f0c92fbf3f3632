"""What a container prints: each line once and in order, over restarts and however often the connection is cut."""

import contextlib
import datetime as dt
import re
import threading
from collections.abc import Callable, Iterator

from tfsteps.cluster.api import Api, ApiError, Resource, Response, Stopped

PODS = Resource("v1", "pods", "Pod")
_LONGEST_LINE = (1 << 20) + 100  # a line of 1 MiB comes whole, its time stamp before it
_QUIET_SECONDS = 3600.0  # a program may be silent for long; whether the server is there, the watches tell
_END_SECONDS = 2.0  # in which a stream ends by itself when the container has ended
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
    api: Api,
    namespace: str,
    pod: str,
    container: str,
    position: Position,
    *,
    tail: int | None = None,
    previous: bool = False,
) -> Iterator[tuple[float, bytes]]:
    """Yield what a container has printed so far, each line with its time in seconds since the epoch.

    Args:
        api: The cluster.
        namespace: The pod's.
        pod: Its name.
        container: Which of its containers.
        position: Where to go on from; it is moved on.
        tail: The last lines only, as many as this; None = all.
        previous: What it printed before its last restart; else, since then.

    Raises:
        ApiError: It cannot be read.
    """
    query = {"container": container, "timestamps": "true", "previous": str(previous).lower(), **position.resume()}
    if tail is not None:
        query["tailLines"] = str(tail)
    with api.open("GET", PODS.path(namespace, pod, "log"), query) as response:
        for line in response.lines(_LONGEST_LINE):
            if new := position.new(line):
                yield new
        if response.rest and (new := position.new(response.rest)):
            yield new


class ContainerLog:
    """Reads all that one container of one pod prints, in a thread of its own.

    An answer that ends need not be whole: who stands between may have cut it. So after the container's end it is read
    until nothing more comes, and only then a last line without an end is one.
    """

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
        restarts: int = 0,
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
            restarts: How often it was started again so far: what it printed before the last of them comes first.
        """
        self._api = api
        self._path = PODS.path(namespace, pod, "log")
        self._query = {"container": container, "timestamps": "true"}
        self._put = put
        self._closed = closed
        self._told = (restarts, False)  # restarts, ended
        self._news = threading.Event()
        self._lock = threading.Lock()
        self._asking = False  # for an answer that has not begun
        self._stream: Response | None = None  # the answer that is being read
        self._position = position or Position()
        self._start()

    def tell(self, restarts: int, *, ended: bool) -> None:
        """Say how often the container was started again, and whether it has ended for good: the rest is read then."""
        if self._told != (restarts, ended):
            self._told = (restarts, ended)
            self._news.set()
            if ended:
                timer = threading.Timer(_END_SECONDS, self._hang_up)
                timer.daemon = True
                timer.start()

    def _hang_up(self) -> None:
        """Give up an answer that does not end although the container has: what is missing is read anew."""
        with self._lock:
            if self._stream:
                self._stream.close()
            elif self._asking:  # not even its head has come: the thread that waits for it is left behind
                self._start()

    def _start(self) -> None:
        self._reader = threading.Thread(target=self._run, name=f"log {self._path}", daemon=True)
        self._reader.start()

    @property
    def _wanted(self) -> bool:
        return threading.current_thread() is self._reader and not self._api.stopping.is_set()

    def _run(self) -> None:
        lost = ""
        try:
            lost = self._read_all()
        except Stopped:
            pass
        finally:
            if threading.current_thread() is self._reader:
                self._closed(lost)

    def _read_all(self) -> str:
        """Read until the container has ended; return what was lost."""
        known, tries = 0, 0
        while self._wanted:
            restarts, ended = self._told  # before reading: what ends meanwhile may have printed meanwhile
            self._news.clear()
            before = self._position.mark
            try:
                if restarts > known:
                    self._put_new(self._read(previous="true"))
                    known = restarts
                rest = self._read(follow=str(not ended).lower())
            except ApiError as error:
                if error.status == 404:
                    return "" if self._position.mark else "the pod was deleted before its log could be read"
                if error.status == 403:
                    return str(error)
            else:
                if ended and before == self._position.mark:
                    self._put_new(rest)
                    return ""
            tries = tries + 1 if before == self._position.mark else 0
            self._news.wait(_PAUSES[min(tries, len(_PAUSES) - 1)])
        return ""

    def _read(self, **which: str) -> bytes:
        """Read one answer; return what it had after its last whole line."""
        with self._answer(**which) as response:
            for line in response.lines(_LONGEST_LINE):
                self._put_new(line)
        return response.rest

    @contextlib.contextmanager
    def _answer(self, **which: str) -> Iterator[Response]:
        """Ask, and yield the answer, which `_hang_up` may end meanwhile."""
        query = {**self._query, **which}
        quiet = _QUIET_SECONDS if which.get("follow") == "true" else None
        self._asking = True
        try:
            with self._api.open("GET", self._path, query | self._position.resume(), read_seconds=quiet) as response:
                with self._lock:
                    if not self._wanted:
                        raise Stopped
                    self._stream, self._asking = response, False
                yield response
        finally:
            if self._wanted:
                self._stream, self._asking = None, False

    def _put_new(self, line: bytes) -> None:
        if line and (new := self._position.new(line)):
            self._put(*new)


def _rfc3339(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
