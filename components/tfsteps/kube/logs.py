"""The log of a container: each line once and in order, over restarts and broken connections."""

import contextlib
import datetime as dt
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator

import msgspec

from tfsteps import typed_json
from tfsteps.answer import NO, Answer, known
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.client import Api
from tfsteps.kube.connections import is_good
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.event_loop import EventLoop, pause
from tfsteps.kube.log_lines import Lines, Moved, Partial, Position, Splitter, epoch, note
from tfsteps.kube.resource import PODS
from tfsteps.kube.stream import Stream

_QUIET_SECONDS = 3600.0  # a program may be silent for long; the watches detect a dead server
_ANSWER_SECONDS = 30.0  # read timeout of an answer that does not wait for the program
_LONGEST_REFUSAL = 1 << 20
_END_SECONDS = 2.0  # a stream ends by itself within this time after the container's end
_REFUSED_SECONDS = 60.0  # after a restart, a kubelet or API server may refuse for this long
_NO_PREVIOUS_TRIES = 3
_NO_LOG = (
    b"unable to retrieve container logs for ",
    b"failed to try resolving symlinks in path ",
    b"failed to open log file ",
)
"""What the kubelet appends to an answer with HTTP 200 if the container or its log is gone
[source: Kubernetes, `pkg/kubelet/kuberuntime/kuberuntime_container.go`; `cri-client/pkg/logs/logs.go`]."""
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
_LONGEST_AT_END = 2.0  # longest pause after the container's end
_LONGEST_WITH_LINES = 1.0  # longest pause if each answer has new lines, but ends at once: some nodes cannot follow logs
_SHORT_SECONDS = 1.0  # an answer that lasts longer than this, and has new lines, is as it should be
_NEWS_SECONDS = 1.0  # a followed log ends as a rule because its container has: the watch tells so within this time
_GAP = "lines may be missing here: the node had dropped the one before when the log was read again"
_DOUBT = "lines may be missing here: when the log was read again, equal lines with the same time did not tell its place"
_ROTATED = "lines may be missing here: reading was {:.0f} s behind, and the node has begun a new log file since"
_BEHIND_SECONDS = 1.0
_NO_PREVIOUS = "what the container printed before it was started again is gone from its node"


class _PodMetadata(msgspec.Struct):
    uid: str


class _PodAnswer(msgspec.Struct):
    metadata: _PodMetadata


def read_log(
    api: Api,
    namespace: str,
    pod: str,
    container: str,
    position: Position,
    *,
    tail: int | None = None,
    previous: bool = False,
    since: float | None = None,
) -> Iterator[Lines]:
    """Yield the lines that a container has printed so far.

    Args:
        api: The cluster.
        namespace: The pod's.
        pod: Its name.
        container: The container's name.
        position: Where to start; it is advanced.
        tail: Only this number of last lines; None = all.
        previous: Read what it printed before its last restart; else, since then.
        since: Only from this second on, in seconds since the epoch, by the node's clock; None = all.

    Raises:
        ApiError: The log cannot be read.
    """
    query = {"container": container, "timestamps": "true", "previous": str(previous).lower()}
    if since is not None:
        query["sinceTime"] = dt.datetime.fromtimestamp(since, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    query |= position.resume()
    if tail is not None:
        query["tailLines"] = str(tail)
    with api.open("GET", PODS.path(namespace, pod, "log"), query) as response:
        for block, continued in Splitter().blocks(response.parts(), rest=True):
            if lines := position.take(block, continued=continued):
                yield lines


class ContainerLog:
    """Reads the whole log of one container of one pod, in an event loop.

    An answer may end early: a proxy may have cut it. So after the container's end, the log is read until no more lines
    come. Only then is a last line without a line end taken as a line.

    Attributes:
        failing: Whether the last request was refused or broke off.
        retry_at: When the next request is sent if the server asked to wait, by the monotonic clock; 0 = it did not.
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
        uid: str = "",
    ) -> None:
        """Start to read; the container must have started.

        Args:
            loop: The event loop.
            api: The cluster.
            namespace: The pod's.
            pod: Its name.
            container: The container's name.
            put: Takes lines. While it blocks, reading waits.
            closed: Called once, at the end, with the reason if lines were lost, else with an empty text.
            partial: Takes an unfinished line, at most once a second; None = not needed.
            position: Where to continue; None = the beginning.
            restarts: Number of restarts so far; the log from before the last restart is read first.
            uid: The pod's; empty = no other pod gets its name.
        """
        self._loop, self._api = loop, api
        self._pod_path, self._uid = PODS.path(namespace, pod), uid
        self._answered = False  # an answer was read to its end
        self._path = PODS.path(namespace, pod, "log")
        self._query = {"container": container, "timestamps": "true"}
        self._put = put
        self._closed = closed
        self._partial = Partial(partial).apply if partial else None
        self._container_state = (restarts, False)  # restarts, ended
        self._gone = False
        self.failing = False
        self.retry_at = 0.0
        self._lock = threading.Lock()
        self._stream: Stream | None = None  # the answer that is being read
        self._follows = False  # whether that answer follows the log
        self._position = position or Position()
        self._known = self._position.restarts  # number of restarts handled
        self._earlier: Position | None = None  # in a log that was replaced by another, for any reason
        self._no_previous = 0  # how often the previous log was missing
        self._refused = 0.0  # when the refusals began; 0 = none
        self._rest = b""  # the bytes after the last whole line of the last answer
        self._moved = self._hidden = False
        self._heard = 0.0  # when bytes were received last
        self._delay, self._least_delay = 0.0, float("inf")  # from a line's time to its arrival, with the clocks' offset
        self._task = loop.run(self._run(), self._failed)

    def tell(self, restarts: int, *, ended: bool) -> None:
        """Set the number of restarts, and whether the container has ended for good: then the rest is read."""
        if self._container_state != (restarts, ended):
            self._container_state = (restarts, ended)
            self._task.wake()
            self._loop.call_later(_END_SECONDS, self._hang_up if ended else self._leave_for_the_earlier_log)

    def gone(self) -> None:
        """Note that the pod is gone: no more can be read, and another pod may have its name."""
        self._gone = True
        self.tell(self._container_state[0], ended=True)

    def _hang_up(self) -> None:
        """Close an answer that does not end although the container has; a new request reads the rest."""
        with self._lock:
            silent = time.monotonic() - self._heard
            if self._stream and silent < _END_SECONDS:
                self._loop.call_later(_END_SECONDS - max(silent, 0.0), self._hang_up)
            elif self._stream:
                self._stream.close()

    def _leave_for_the_earlier_log(self) -> None:
        """Close an answer that began after a restart that was reported later: the log from before is to be read first.

        The kubelet deletes it as soon as the container ends again. An answer that began before the restart ends by
        itself, but may have more to give if reading is behind.
        """
        with self._lock:
            if self._stream and self._follows and self._known < self._container_state[0]:
                if self._behind > _BEHIND_SECONDS and time.monotonic() - self._heard < _END_SECONDS:
                    self._loop.call_later(_END_SECONDS, self._leave_for_the_earlier_log)
                else:
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
        tries = 0  # rounds without new lines, or that ended at once
        while not self._api.stopping.is_set():
            restarts, ended = self._container_state  # before reading: it may end during the read
            began = time.monotonic()
            if self._gone:
                self._put_rest(self._rest, self._position)
                return "" if self._position.lines else "the pod was deleted before its log could be read"
            before, least = self._position.lines, 0.0
            try:
                if await self._read_on(restarts, ended=ended):
                    return ""
                self._refused = 0.0
                least = 0.0 if ended or self._gone else _NEWS_SECONDS
            except Moved:
                self._moved = True
            except ApiError as error:
                self.failing, least = True, error.retry_after
                if (lost := self._lost(error, ended=ended)) is not None:
                    return lost
            if self._container_state != (restarts, ended):
                tries = 0
                continue
            longest = _LONGEST_AT_END if ended else _PAUSES[-1]
            if before != self._position.lines:
                longest = _LONGEST_WITH_LINES
                tries = 0 if time.monotonic() - began > _SHORT_SECONDS else tries
            self.retry_at = time.monotonic() + least if self.failing and least else 0.0
            await pause(max(min(_PAUSES[min(tries, len(_PAUSES) - 1)], longest), least))
            tries += 1
        return ""

    async def _read_on(self, restarts: int, *, ended: bool) -> bool:
        """Read what is there, and follow the log if the container has not ended; tell whether that is all."""
        if (self._moved or (self._answered and not self._position.lines)) and await self._replaced():
            self._gone = True
            return False
        if self._moved:
            await self._find_again()
        if restarts > self._known:
            await self._read_previous(restarts)
        before = self._position.lines
        last = await self._is_last() if ended and before else None
        if last is not None and last.yes:
            return True
        self._rest = await self._read(self._position, follow=str(not ended).lower())
        if not ended or before < self._position.lines:
            return False
        if last is not None and last.no and not self._rest and not self._hidden:
            self._hidden = self._moved = True
            self._position.look_everywhere()
            return False
        behind = last is not None and last.unknown and not self._rest and self._behind > _BEHIND_SECONDS
        if behind and not await self._replaced():
            self._put(note(_ROTATED.format(self._behind), self._known))
        self._put_rest(self._rest, self._position)
        return True

    def _lost(self, error: ApiError, *, ended: bool) -> str | None:
        """Return why lines are lost if a refusal is final; None = it may be temporary."""
        if error.status not in (403, 404):
            return None
        self._refused = self._refused or time.monotonic()
        if time.monotonic() - self._refused < _REFUSED_SECONDS and not (ended and error.status == 403):
            return None
        return str(error)

    async def _replaced(self) -> bool:
        """Tell whether another pod has the name by now; False also if that is not known.

        Operators recreate a pod under its name, and the API finds logs by name alone. The watch may report it late.
        """
        if not self._uid:
            return False
        try:
            with self._api.begin(self._pod_path, {}) as stream:
                await stream.begin(_ANSWER_SECONDS)
                if not is_good(stream.status, stream.headers):
                    return False
                text = b"".join([bytes(part) async for part in stream.parts()])
            return typed_json.decode(text, _PodAnswer).metadata.uid != self._uid
        except (ApiError, *NOT_READABLE):
            return False

    # --- other logs than the one that was read

    async def _find_again(self) -> None:
        """Find where the log continues: later in its file, in the file of an earlier run, or nowhere."""
        answer = await self._is_in(self._position, follow="false")
        if answer.no:
            answer = await self._is_in_previous(self._position)
            if not answer.no:  # the restart has not been reported yet
                self._doubt(answer)
                self._put_rest(await self._read(self._position, previous="true"), self._position)
                self._known += 1
            elif not self._no_previous:
                self._put(note(_GAP, self._known))
            self._earlier, self._position = self._position, Position(self._known)
        else:
            self._doubt(answer)
        self._moved = False

    def _doubt(self, answer: Answer) -> None:
        if answer.unknown:
            self._put(note(_DOUBT, self._known))

    async def _is_in(self, position: Position, **which: str) -> Answer:
        async with self._answer(position, **which) as answer:
            position.begin_search()
            splitter = Splitter()
            async for part in answer.parts():
                for block, continued in splitter.feed(part):
                    position.search(block, continued=continued)
        return position.end_search()

    async def _is_last(self) -> Answer:
        """Tell whether the log ends with the last line read; not known if it is empty."""
        blocks, splitter = await self._tail(Position(), tailLines=self._position.last_lines, follow="false")
        last = self._position.is_last(blocks)
        return last & known(not splitter.rest)

    async def _is_in_previous(self, position: Position) -> Answer:
        try:
            return await self._is_in(position, previous="true")
        except ApiError as error:
            if error.status in (400, 404):
                return NO
            raise

    async def _read_previous(self, restarts: int) -> None:
        """Read the rest of the log from before the last restart; then a new log begins.

        If lines from after the restart were read before the restart was reported, reading continues after them.
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
        """Return the time of the last line before the last restart; empty = there is none."""
        position = Position()
        blocks, splitter = await self._tail(position, tailLines="1", previous="true")
        for block, continued in [*blocks, *splitter.end()]:
            position.take(block, continued=continued)
        return position.last

    async def _tail(self, position: Position, **which: str) -> tuple[list[tuple[bytes, bool]], Splitter]:
        """Return the last lines of a log, and a splitter with the unfinished rest."""
        splitter = Splitter()
        async with self._answer(position, **which) as answer:
            blocks = [block async for part in answer.parts() for block in splitter.feed(part)]
        return blocks, splitter

    async def _read_to_its_end(self, position: Position) -> None:
        try:
            rest = await self._read(position, previous="true")
        except Moved:
            answer = await self._is_in_previous(position)
            self._doubt(answer)
            if answer.no:
                self._put(note(_GAP, position.restarts))
                self._earlier = position = Position(position.restarts)
            rest = await self._read(position, previous="true")
        self._put_rest(rest, position)

    # --- one answer

    async def _read(self, position: Position, **which: str) -> bytes:
        """Read one answer; return the bytes after its last whole line."""
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
        self._answered = True
        return bytes(splitter.rest)

    def _take(self, position: Position, block: bytes, *, continued: bool = False) -> None:
        if lines := position.take(block, continued=continued):
            self._heard = float("inf")  # `put` may be slow
            self._delay = time.time() - epoch(lines.stamps[-1])
            self._least_delay = min(self._least_delay, self._delay)
            self._put(lines)

    @property
    def _behind(self) -> float:
        """By how many seconds more than the least the last line was late."""
        return max(self._delay - self._least_delay, 0.0)

    def _put_rest(self, rest: bytes, position: Position) -> None:
        """Take the unfinished rest as a line."""
        if rest:
            self._take(position, rest + b"\n")

    @contextlib.asynccontextmanager
    async def _answer(self, position: Position, **which: str) -> AsyncIterator[Stream]:
        """Yield the answer once it begins. ApiError if it is a refusal; `_hang_up` may end it at any time."""
        query = {**self._query, **which, **position.resume()}
        follows = which.get("follow") == "true"
        for refused in (False, True):
            if self._api.stopping.is_set():
                raise Stopped
            with self._api.begin(self._path, query, refused=refused) as stream:
                try:
                    self._set_stream(stream, follows=follows)
                    await stream.begin(_QUIET_SECONDS if follows else _ANSWER_SECONDS)
                    if stream.status != 401 or refused:
                        if not is_good(stream.status, stream.headers):
                            text = bytearray()
                            with contextlib.suppress(ApiError):
                                async for part in stream.parts():
                                    text += part[: _LONGEST_REFUSAL - len(text)]
                            raise self._api.refused(f"GET {self._path}", stream.status, stream.headers, bytes(text))
                        self._api.accepted(stream.headers)
                        self._heard = time.monotonic()
                        self.failing = False
                        yield stream
                        return
                finally:
                    self._set_stream(None)

    def _set_stream(self, stream: Stream | None, *, follows: bool = False) -> None:
        with self._lock:
            self._stream, self._follows = stream, follows
