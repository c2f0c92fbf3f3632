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
_LATE_NANOSECONDS = 10**8  # by which a line may come after one with a later time
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.?(\d{0,9})(Z|[+-]\d\d:\d\d) ?")


class Position:
    """How far the log of a container has been read.

    The API resumes by the second. So whatever is read again starts with the last second that was seen, and what was
    seen of it is left out: all up to the line that was read last, or, where the log has lost that one, up to the latest
    time. What follows is new whatever its time, for standard output and error are stamped by two writers, either of
    which may be late [source: containerd, `pkg/cri/io/logger.go`].

    Attributes:
        lines: How many were new.
        first: When the first new one of what is read now was printed, in nanoseconds since the epoch; 0 = none so far.
        last: The latest such time of all; 0 = none so far.
    """

    def __init__(self) -> None:
        """Begin before the first line."""
        self.lines = self.first = self.last = 0
        self._tail = self._row = 0  # the time of the line that was read last, and how many in a row had it
        self._resumed = (0, 0, 0)  # the latest time and these two when it was last resumed
        self._again = 0  # how many of those in a row are still to come again
        self._at = 0  # the time of the line before this one
        self._second = (b"", 0)

    def before(self) -> "Position":
        """Return where this one was when it was last resumed."""
        other = Position()
        other.last, other._tail, other._row = self._resumed
        return other

    def resume(self) -> dict[str, str]:
        """Return what to ask the API for; `new` expects its answer then."""
        self._resumed, self._again, self.first = (self.last, self._tail, self._row), self._row, 0
        return {"sinceTime": _rfc3339((self.last - _LATE_NANOSECONDS) // 10**9)} if self.last else {}

    def new(self, line: bytes) -> tuple[float, bytes] | None:
        """Return a line's time in seconds since the epoch and its text; None for one that was seen before."""
        at, text = self._parsed(line)
        if self._again:
            if at <= self.last:
                self._again -= at == self._tail
                return None
            self._again = 0
        self.lines += 1
        if not self.first:
            self.first = at
        if at > self.last:  # noqa: PLR1730  max() would be a tenth of what a line costs
            self.last = at
        self._row = self._row + 1 if at == self._tail else 1
        self._tail = at
        return at / 1e9, text

    def _parsed(self, line: bytes) -> tuple[int, bytes]:
        """Return a line's time and text. A piece of a line too long for us has the time of what came before it."""
        found = _STAMP.match(line)
        if not found:
            return self._at, line
        second, fraction, zone = found.groups()
        if self._second[0] != second + zone:  # consecutive lines mostly share it
            self._second = second + zone, int(dt.datetime.fromisoformat((second + zone).decode()).timestamp())
        self._at = self._second[1] * 10**9 + int(fraction.ljust(9, b"0"))
        return self._at, line[found.end() :]


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
        self._earlier: Position | None = None  # in what came before a restart, while that is read
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
            before = self._position.lines
            try:
                if restarts > known:
                    self._read_previous()
                    known = restarts
                rest = self._read(self._position, follow=str(not ended).lower())
            except ApiError as error:
                if error.status == 404:
                    return "" if self._position.lines else "the pod was deleted before its log could be read"
                if error.status == 403:
                    return str(error)
            else:
                if ended and before == self._position.lines:
                    self._put_new(rest, self._position)
                    return ""
            tries = tries + 1 if before == self._position.lines else 0
            self._news.wait(_PAUSES[min(tries, len(_PAUSES) - 1)])
        return ""

    def _read_previous(self) -> None:
        """Read on in what the container printed before its last restart.

        We may have heard of that later than we read what came after it, and go on from where that began then.
        """
        if self._earlier is None:
            unseen = self._position.first and self._position.first > self._last_of_previous()
            self._earlier = self._position.before() if unseen else self._position
        self._put_new(self._read(self._earlier, previous="true"), self._earlier)
        self._earlier = None

    def _last_of_previous(self) -> int:
        """Return when the container printed its last line before its last restart; 0 = it printed none."""
        position = Position()
        with self._answer(position, previous="true", tailLines="1") as response:
            for line in response.lines(_LONGEST_LINE):
                position.new(line)
            position.new(response.rest)
        return position.last

    def _read(self, position: Position, **which: str) -> bytes:
        """Read one answer; return what it had after its last whole line."""
        with self._answer(position, **which) as response:
            for line in response.lines(_LONGEST_LINE):
                self._put_new(line, position)
        return response.rest

    @contextlib.contextmanager
    def _answer(self, position: Position, **which: str) -> Iterator[Response]:
        """Ask, and yield the answer, which `_hang_up` may end meanwhile."""
        query = {**self._query, **which}
        quiet = _QUIET_SECONDS if which.get("follow") == "true" else None
        self._asking = True
        try:
            with self._api.open("GET", self._path, query | position.resume(), read_seconds=quiet) as response:
                with self._lock:
                    if not self._wanted:
                        raise Stopped
                    self._stream, self._asking = response, False
                yield response
        finally:
            if self._wanted:
                self._stream, self._asking = None, False

    def _put_new(self, line: bytes, position: Position) -> None:
        if line and (new := position.new(line)):
            self._put(*new)


def _rfc3339(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
