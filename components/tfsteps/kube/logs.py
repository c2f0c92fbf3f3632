"""What a container prints: each line once and in order, over restarts and however often the connection is cut."""

import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator

from tfsteps.kube.client import Api, Resource
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.event_loop import EventLoop, pause
from tfsteps.kube.log_lines import Lines, Moved, Partial, Position, Splitter, note
from tfsteps.kube.response import is_good
from tfsteps.kube.stream import Stream

PODS = Resource("v1", "pods", "Pod")
_QUIET_SECONDS = 3600.0  # a program may be silent for long; whether the server is there, the watches tell
_ANSWER_SECONDS = 30.0  # longest silence in an answer that does not wait for the program
_LONGEST_REFUSAL = 1 << 20
_END_SECONDS = 2.0  # in which a stream ends by itself when the container has ended
_REFUSED_SECONDS = 60.0  # in which a kubelet or API server that was started again knows the pod, and us, again
_NO_PREVIOUS_TRIES = 3
_NO_LOG = (
    b"unable to retrieve container logs for ",
    b"failed to try resolving symlinks in path ",
    b"failed to open log file ",
)
"""What the kubelet writes behind an answer that it began with HTTP 200, where the container or its log is gone
[source: Kubernetes, `pkg/kubelet/kuberuntime/kuberuntime_container.go`; `cri-client/pkg/logs/logs.go`]."""
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
_LONGEST_AT_END = 2.0  # pause: nobody waits long for the rest of a log
_GAP = "lines may be missing here: the node had dropped the one before when the log was read again"
_NO_PREVIOUS = "what the container printed before it was started again is gone from its node"


def read_log(
    api: Api,
    namespace: str,
    pod: str,
    container: str,
    position: Position,
    *,
    tail: int | None = None,
    previous: bool = False,
) -> Iterator[Lines]:
    """Yield what a container has printed so far.

    Args:
        api: The cluster.
        namespace: The pod's.
        pod: Its name.
        container: Which of its containers.
        position: At the beginning; it is moved on.
        tail: The last lines only, as many as this; None = all.
        previous: What it printed before its last restart; else, since then.

    Raises:
        ApiError: It cannot be read.
    """
    query = {"container": container, "timestamps": "true", "previous": str(previous).lower(), **position.resume()}
    if tail is not None:
        query["tailLines"] = str(tail)
    with api.open("GET", PODS.path(namespace, pod, "log"), query) as response:
        for block, continued in Splitter().blocks(response.parts(), rest=True):
            if lines := position.take(block, continued=continued):
                yield lines


class ContainerLog:
    """Reads all that one container of one pod prints, in an event loop.

    An answer that ends need not be whole: who stands between may have cut it. So after the container's end it is read
    until nothing more comes, and only then a last line without an end is one.

    Attributes:
        failing: Whether the last attempt to read was refused or broke off.
    """

    def __init__(
        self,
        loop: EventLoop,
        api: Api,
        namespace: str,
        pod: str,
        container: str,
        *,
        put: Callable[[Lines], object],
        closed: Callable[[str], object],
        partial: Callable[[bytes], object] | None = None,
        position: Position | None = None,
        restarts: int = 0,
    ) -> None:
        """Begin; the container must have started.

        Args:
            loop: Where it runs.
            api: The cluster.
            namespace: The pod's.
            pod: Its name.
            container: Which of its containers.
            put: Takes lines. While it blocks, reading waits.
            closed: Called once, at the end; with what was lost, or an empty text.
            partial: Takes what has come of a line whose end has not, at most once a second; None = nobody does.
            position: Where to go on from; None = the beginning.
            restarts: How often it was started again so far: what it printed before the last of them comes first.
        """
        self._loop, self._api = loop, api
        self._path = PODS.path(namespace, pod, "log")
        self._query = {"container": container, "timestamps": "true"}
        self._put = put
        self._closed = closed
        self._partial = Partial(partial).see if partial else None
        self._container_state = (restarts, False)  # restarts, ended
        self._gone = False
        self.failing = False
        self._lock = threading.Lock()
        self._stream: Stream | None = None  # the answer that is waited for, or read
        self._position = position or Position()
        self._known = self._position.restarts  # how many restarts have been dealt with
        self._earlier: Position | None = None  # in the log that another one has taken the place of, whyever
        self._no_previous = 0  # how often there was none
        self._refused = 0.0  # since when we are refused; 0 = we are not
        self._rest = b""  # what the last answer had after its last whole line
        self._moved = self._hidden = False
        self._heard = 0.0  # when bytes came last
        self._task = loop.run(self._run(), self._failed)

    def tell(self, restarts: int, *, ended: bool) -> None:
        """Say how often the container was started again, and whether it has ended for good: the rest is read then."""
        if self._container_state != (restarts, ended):
            self._container_state = (restarts, ended)
            self._task.wake()
            if ended:
                self._loop.call_later(_END_SECONDS, self._hang_up)

    def gone(self) -> None:
        """Say that the pod is gone: nothing more can be read, and another one may have its name."""
        self._gone = True
        self.tell(self._container_state[0], ended=True)

    def _hang_up(self) -> None:
        """Give up an answer that does not end although the container has: what is missing is read anew."""
        with self._lock:
            silent = time.monotonic() - self._heard
            if self._stream and silent < _END_SECONDS:
                self._loop.call_later(_END_SECONDS - max(silent, 0.0), self._hang_up)
            elif self._stream:
                self._stream.close()

    async def _run(self) -> None:
        lost = ""
        with contextlib.suppress(Stopped):
            lost = await self._read_all()
        self._closed(lost)

    def _failed(self, why: str) -> None:
        self._closed(f"its reader failed ({why}); report this")

    async def _read_all(self) -> str:
        """Read until the container has ended; return what was lost."""
        tries = 0
        while not self._api.stopping.is_set():
            restarts, ended = self._container_state  # before reading: what ends meanwhile may have printed meanwhile
            if self._gone:
                self._put_rest(self._rest, self._position)
                return "" if self._position.lines else "the pod was deleted before its log could be read"
            before = self._position.lines
            try:
                if await self._read_on(restarts, ended=ended):
                    return ""
                self._refused = 0.0
            except Moved:
                self._moved = True
            except ApiError as error:
                self.failing = True
                if (lost := self._lost(error, ended=ended)) is not None:
                    return lost
            tries = tries + 1 if before == self._position.lines else 0
            if self._container_state != (restarts, ended):
                tries = 0
            elif not self._moved:
                seconds = _PAUSES[min(tries, len(_PAUSES) - 1)]
                await pause(min(seconds, _LONGEST_AT_END) if ended else seconds)
        return ""

    async def _read_on(self, restarts: int, *, ended: bool) -> bool:
        """Read what there is, and what comes if the container has not ended; tell whether that is all."""
        if self._moved:
            await self._find_again()
        if restarts > self._known:
            await self._read_previous(restarts)
        before = self._position.lines
        last = await self._is_last() if ended and before else None
        if last:
            return True
        self._rest = await self._read(self._position, follow=str(not ended).lower())
        if not ended or before < self._position.lines:
            return False
        if last is False and not self._rest and not self._hidden:
            self._hidden = self._moved = True
            self._position.look_everywhere()
            return False
        self._put_rest(self._rest, self._position)
        return True

    def _lost(self, error: ApiError, *, ended: bool) -> str | None:
        """Return what a refusal costs for good; None if it may be another answer soon."""
        if error.status not in (403, 404):
            return None
        self._refused = self._refused or time.monotonic()
        if time.monotonic() - self._refused < _REFUSED_SECONDS and not (ended and error.status == 403):
            return None
        return str(error)

    # --- other logs than the one that was read

    async def _find_again(self) -> None:
        """See where the log goes on that was read: later in its file, in that of an earlier run, or nowhere."""
        if not await self._is_in(self._position, follow="false"):
            if await self._is_in_previous(self._position):  # we have not been told of the restart yet
                self._put_rest(await self._read(self._position, previous="true"), self._position)
                self._known += 1
            elif not self._no_previous:
                self._put(note(_GAP, self._known))
            self._earlier, self._position = self._position, Position(self._known)
        self._moved = False

    async def _is_in(self, position: Position, **which: str) -> bool:
        async with self._answer(position, **which) as answer:
            position.begin_search()
            splitter = Splitter()
            async for part in answer.parts():
                for block, continued in splitter.feed(part):
                    position.search(block, continued=continued)
        return position.end_search()

    async def _is_last(self) -> bool | None:
        """Tell whether the log ends with the last line that was read; None if that cannot be told."""
        blocks, splitter = await self._tail(Position(), follow="false")
        last = self._position.is_last(blocks)
        return last and not splitter.rest

    async def _is_in_previous(self, position: Position) -> bool:
        try:
            return await self._is_in(position, previous="true")
        except ApiError as error:
            if error.status in (400, 404):
                return False
            raise

    async def _read_previous(self, restarts: int) -> None:
        """Read on in what the container printed before its last restart; then, another log begins.

        We may have heard of that later than we read what came after it, and go on from where that began then.
        """
        try:
            last = await self._last_of_previous()
            seen = not self._position.first or self._position.first <= last
            self._earlier = self._position if seen else self._earlier or Position()
            self._earlier.restarts = restarts - 1
            await self._read_to_its_end(self._earlier)
        except ApiError as error:
            self._no_previous += 1
            if error.status not in (400, 404) or self._no_previous < _NO_PREVIOUS_TRIES:
                raise
            self._put(note(_NO_PREVIOUS, restarts - 1))
        else:
            self._no_previous = 0
            self._position = Position() if seen else self._position
        self._earlier, self._known, self._position.restarts = None, restarts, restarts

    async def _last_of_previous(self) -> bytes:
        """Return when the container printed its last line before its last restart; empty = it printed none."""
        position = Position()
        blocks, splitter = await self._tail(position, previous="true")
        for block, continued in [*blocks, *splitter.end()]:
            position.take(block, continued=continued)
        return position.last

    async def _tail(self, position: Position, **which: str) -> tuple[list[tuple[bytes, bool]], Splitter]:
        """Return the last line of an answer, and what may follow it."""
        splitter = Splitter()
        async with self._answer(position, tailLines="1", **which) as answer:
            blocks = [block async for part in answer.parts() for block in splitter.feed(part)]
        return blocks, splitter

    async def _read_to_its_end(self, position: Position) -> None:
        try:
            rest = await self._read(position, previous="true")
        except Moved:
            if not await self._is_in_previous(position):
                self._put(note(_GAP, position.restarts))
                self._earlier = position = Position(position.restarts)
            rest = await self._read(position, previous="true")
        self._put_rest(rest, position)

    # --- one answer

    async def _read(self, position: Position, **which: str) -> bytes:
        """Read one answer; return what it had after its last whole line."""
        splitter = Splitter()
        async with self._answer(position, **which) as answer:
            async for part in answer.parts():
                for block, continued in splitter.feed(part):
                    self._take(position, block, continued=continued)
                self._heard = time.monotonic()
                if splitter.rest and position.caught_up and self._partial:
                    self._partial(splitter.rest)
        if splitter.rest.startswith(_NO_LOG):
            raise ApiError(splitter.rest.decode(errors="replace"), 404)
        return bytes(splitter.rest)

    def _take(self, position: Position, block: bytes, *, continued: bool = False) -> None:
        if lines := position.take(block, continued=continued):
            self._heard = float("inf")  # who takes lines may be slow
            self._put(lines)

    def _put_rest(self, rest: bytes, position: Position) -> None:
        """Take what comes last, without an end, as a line."""
        if rest:
            self._take(position, rest + b"\n")

    @contextlib.asynccontextmanager
    async def _answer(self, position: Position, **which: str) -> AsyncIterator[Stream]:
        """Ask, and yield the answer as soon as it begins. `_hang_up` may end it at any time."""
        query = {**self._query, **which, **position.resume()}
        seconds = _QUIET_SECONDS if which.get("follow") == "true" else _ANSWER_SECONDS
        for refused in (False, True):
            if self._api.stopping.is_set():
                raise Stopped
            with self._api.begin(self._path, query, refused=refused) as stream:
                try:
                    self._set_stream(stream)
                    await stream.begin(seconds)
                    if stream.status != 401 or refused:
                        yield await self._accepted(stream)
                        return
                finally:
                    self._set_stream(None)

    def _set_stream(self, stream: Stream | None) -> None:
        with self._lock:
            self._stream = stream

    async def _accepted(self, stream: Stream) -> Stream:
        """Return a good answer. ApiError if it is none."""
        if not is_good(stream.status, stream.headers):
            text = bytearray()
            with contextlib.suppress(ApiError):
                async for part in stream.parts():
                    text += part[: _LONGEST_REFUSAL - len(text)]
            raise self._api.refused(f"GET {self._path}", stream.status, stream.headers, bytes(text))
        self._api.accepted(stream.headers)
        self._heard = time.monotonic()
        self.failing = False
        return stream
