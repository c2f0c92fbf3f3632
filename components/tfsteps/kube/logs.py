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
    rest: bool = True,
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
        rest: Take an unfinished last line as a line; else it is left for what follows the log from `position`.

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
        for block, continued in Splitter().blocks(response.parts(), rest=rest):
            if lines := position.take(block, continued=continued):
                yield lines


class _OpenAnswer(msgspec.Struct):
    """An answer while it is read."""

    stream: Stream
    follows: bool
    received: float  # when bytes were received last, by the monotonic clock; infinite while they are processed


class _LogRequests:
    """The requests for the log of one container, one at a time. Another thread may close the answer."""

    __slots__ = ("_api", "_container", "_lock", "_open", "_pod_path", "_uid")

    def __init__(self, api: Api, namespace: str, pod: str, container: str, uid: str) -> None:
        self._api, self._pod_path, self._container, self._uid = api, PODS.path(namespace, pod), container, uid
        self._lock = threading.Lock()
        self._open: _OpenAnswer | None = None

    @contextlib.asynccontextmanager
    async def answer(self, position: Position, **which: str) -> AsyncIterator[_OpenAnswer]:
        """Yield the answer once it begins. ApiError if it is a refusal; `close` may end it at any time."""
        path = f"{self._pod_path}/log"
        query = {"container": self._container, "timestamps": "true", **which, **position.resume()}
        follows = which.get("follow") == "true"
        for refused in (False, True):
            if self._api.stopping.is_set():
                raise Stopped
            with self._api.begin(path, query, refused=refused) as stream:
                try:
                    self._set_open(answer := _OpenAnswer(stream, follows, time.monotonic()))
                    await stream.begin(_QUIET_SECONDS if follows else _ANSWER_SECONDS)
                    if stream.status != 401 or refused:
                        if not is_good(stream.status, stream.headers):
                            text = bytearray()
                            with contextlib.suppress(ApiError):
                                async for part in stream.parts():
                                    text += part[: _LONGEST_REFUSAL - len(text)]
                            raise self._api.refused(f"GET {path}", stream.status, stream.headers, bytes(text))
                        self._api.accepted(stream.headers)
                        answer.received = time.monotonic()
                        yield answer
                        return
                finally:
                    self._set_open(None)

    def _set_open(self, answer: _OpenAnswer | None) -> None:
        with self._lock:
            self._open = answer

    def close(self, silence: float, *, only_followed: bool) -> float:
        """Close the answer if no bytes came for `silence` seconds; return when to try again, in seconds; 0 = never."""
        with self._lock:
            if not (answer := self._open) or (only_followed and not answer.follows):
                return 0.0
            if (left := silence - max(time.monotonic() - answer.received, 0.0)) <= 0:
                answer.stream.close()
            return max(left, 0.0)

    async def pod_replaced(self) -> bool:
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

    async def is_in(self, position: Position, *, previous: bool) -> Answer:
        """Tell whether the log, or that from before the last restart, has the last line that was read.

        No is what two answers tell: a proxy may have cut one before that line.
        """
        answer = await self._search(position, previous=previous)
        return await self._search(position, previous=previous) if answer.no else answer

    async def _search(self, position: Position, *, previous: bool) -> Answer:
        try:
            async with self.answer(position, **({"previous": "true"} if previous else {"follow": "false"})) as answer:
                return await position.search(Splitter().blocks_of(answer.stream.parts()))
        except ApiError as error:
            if previous and error.status in (400, 404):
                return NO
            raise

    async def is_last(self, position: Position) -> Answer:
        """Tell whether the log ends with the last line that was read; not known if it is empty."""
        blocks, splitter = await self._tail(Position(), tailLines=position.last_lines, follow="false")
        return position.is_last(blocks) & known(not splitter.rest)

    async def last_of_previous(self) -> bytes:
        """Return the time of the last line before the last restart; empty = there is none."""
        position = Position()
        blocks, splitter = await self._tail(position, tailLines="1", previous="true")
        for block, continued in [*blocks, *splitter.end()]:
            position.take(block, continued=continued)
        return position.last

    async def _tail(self, position: Position, **which: str) -> tuple[list[tuple[bytes, bool]], Splitter]:
        """Return the last lines of a log, and a splitter with the unfinished rest."""
        splitter = Splitter()
        async with self.answer(position, **which) as answer:
            blocks = [block async for block in splitter.blocks_of(answer.stream.parts())]
        _check_there(splitter)
        return blocks, splitter


def _check_there(splitter: Splitter) -> None:
    """Raise ApiError if a whole answer ends with the kubelet's message that there is no log any more."""
    if splitter.rest.startswith(_NO_LOG):
        raise ApiError(splitter.rest.decode(errors="replace"), 404)


class _LogOutput:
    """Passes on the lines of a container and the notes on missing ones, and measures how late lines arrive."""

    __slots__ = ("_delay", "_least_delay", "_put", "ends_with_note", "has_begun", "partial")

    def __init__(self, put: Callable[[Lines], object], partial: Callable[[bytes], object] | None) -> None:
        self._put = put
        self.partial = Partial(partial).apply if partial else None
        self.has_begun = self.ends_with_note = False  # a line came; none came since the last note
        self._delay, self._least_delay = 0.0, float("inf")  # from a line's time to its arrival, with the clocks' offset

    def take(self, position: Position, block: bytes, *, continued: bool = False) -> None:
        """Pass on the new lines of a block. Moved if the lines read before are not at their place."""
        if lines := position.take(block, continued=continued):
            self._delay = time.time() - epoch(lines.stamps[-1])
            self._least_delay = min(self._least_delay, self._delay)
            self.has_begun, self.ends_with_note = True, False
            self._put(lines)

    def take_rest(self, position: Position, splitter: Splitter) -> None:
        """Take the unfinished rest of an answer as a line. Moved as for `take`."""
        for block, continued in splitter.end():
            self.take(position, block, continued=continued)

    def note(self, why: str, restarts: int) -> None:
        """Say that lines may be missing, in the log of the run after `restarts` restarts."""
        self._put(note(why, restarts))
        self.ends_with_note = True

    @property
    def behind(self) -> float:
        """By how many seconds more than the least the last line was late."""
        return max(self._delay - self._least_delay, 0.0)


class _ContainerState(msgspec.Struct, frozen=True):
    """What the watch has reported of a container."""

    restarts: int
    ended: bool = False  # for good
    gone: bool = False  # with its pod


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
        self._loop, self._stopping = loop, api.stopping
        self._requests = _LogRequests(api, namespace, pod, container, uid)
        self._output = _LogOutput(put, partial)
        self._closed = closed
        self._state = _ContainerState(restarts)
        self.failing = False
        self.retry_at = 0.0
        self._position = position or Position()
        self._earlier: Position | None = None  # in the log that was read before, if another has replaced it
        self._no_previous = 0  # how often the previous log was missing
        self._answered = False  # an answer was read to its end
        self._read_after_end = False  # one that began after the container's end
        self._broke_off = False  # the last one was not, or was refused
        self._last = Splitter()  # of the last answer, with the bytes after its last whole line
        self._last_place = (self._position, 0)  # where reading was after that answer: its position, and its lines
        self._task = loop.run(self._run(), self._failed)

    def tell(self, restarts: int, *, ended: bool) -> None:
        """Set the number of restarts, and whether the container has ended for good: then the rest is read."""
        self._set_state(_ContainerState(restarts, ended, self._state.gone))

    def gone(self) -> None:
        """Note that the pod is gone: no more can be read, and another pod may have its name."""
        self._set_state(_ContainerState(self._state.restarts, ended=True, gone=True))

    def _set_state(self, state: _ContainerState) -> None:
        if self._state != state:
            self._state = state
            self._task.wake()
            self._loop.call_later(_END_SECONDS, self._close_answer)

    def _close_answer(self) -> None:
        """Close an answer that does not end although the container has, or that began after a restart reported later.

        A new request reads the rest. The log from before the restart is to be read first: the kubelet deletes it as
        soon as the container ends again. An answer that began before the restart ends by itself, but may have more to
        give if reading is behind.
        """
        ended = self._state.ended
        if ended or self._position.restarts < self._state.restarts:
            silence = _END_SECONDS if ended or self._output.behind > _BEHIND_SECONDS else 0.0
            if seconds := self._requests.close(silence, only_followed=not ended):
                self._loop.call_later(seconds, self._close_answer)

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
        refused = 0.0  # when the refusals began; 0 = none
        moved = False  # whether to find the position again
        while not self._stopping.is_set():
            state = self._state  # before reading: it may end during the read
            began = time.monotonic()
            before, least = self._position.lines, 0.0
            suspect = moved or (self._answered and not before)
            if state.gone or (suspect and await self._requests.pod_replaced()):
                if self._last_place == (self._position, self._position.lines):  # else the rest was read as a line since
                    self._position.expect_next()
                    self._output.take_rest(self._position, self._last)
                return self._lost_with_pod(moved=moved and state.gone)  # else they are lines of the other pod
            try:
                if moved:
                    await self._find_again()
                    moved = False
                if await self._read_on(state):
                    return ""
                refused, least = 0.0, 0.0 if state.ended else _NEWS_SECONDS
            except Moved:
                moved = True
            except ApiError as error:
                self.failing, least = True, error.retry_after
                if error.status in (403, 404):
                    refused = refused or time.monotonic()
                    if time.monotonic() - refused >= _REFUSED_SECONDS or (state.ended and error.status == 403):
                        return str(error)
            if self._state != state:
                tries = 0
                continue
            longest = _LONGEST_AT_END if state.ended else _PAUSES[-1]
            if before != self._position.lines:
                longest = _LONGEST_WITH_LINES
                tries = 0 if time.monotonic() - began > _SHORT_SECONDS else tries
            self.retry_at = time.monotonic() + least if self.failing and least else 0.0
            await pause(max(min(_PAUSES[min(tries, len(_PAUSES) - 1)], longest), least))
            tries += 1
        return ""

    def _lost_with_pod(self, *, moved: bool) -> str:
        """Return what of the log may not have been read now that the pod is gone; empty = nothing, as far as is known.

        An answer that ended by itself is taken for whole: mostly the container has ended with it.
        """
        if not (self._answered or self._output.has_begun or self._position.lines):
            return "the pod was deleted before its log could be read"
        answered = self._answered and self._last_place[0] is self._position
        read = answered or (self._output.has_begun and self._position.lines)
        if moved or self._broke_off or not read or self._state.restarts > self._position.restarts:
            return "its end may be missing: the pod was deleted before it was read again"
        return ""

    async def _read_on(self, state: _ContainerState) -> bool:
        """Read what is there, and follow the log if the container has not ended; tell whether that is all."""
        if state.restarts > self._position.restarts:
            await self._read_previous(state.restarts)
        position, before = self._position, self._position.lines
        last = await self._requests.is_last(position) if state.ended and before else None
        if last is not None:
            self.failing = False
            if last.yes:
                return True
            self._broke_off |= last.no
            self._read_after_end &= not last.no
        if self._state != state:  # such as its end, after which an answer that follows the log might be closed late
            return False
        self._last = await self._read(position, follow=str(not state.ended).lower())
        self._last_place, self._read_after_end = (position, position.lines), state.ended
        if not state.ended or before < position.lines:
            return False
        if last is not None and not self._last.rest:
            if last.no and position.look_everywhere():
                raise Moved
            behind = self._output.behind
            if last.unknown and behind > _BEHIND_SECONDS and not await self._requests.pod_replaced():
                self._output.note(_ROTATED.format(behind), position.restarts)
        self._output.take_rest(position, self._last)
        return True

    # --- other logs than the one that was read

    async def _find_again(self) -> None:
        """Find where the log continues: later in its file, in the file of an earlier run, or nowhere."""
        position = self._position
        answer = await self._requests.is_in(position, previous=False)
        if not answer.no:
            self._doubt(answer)
            return
        restarts = position.restarts
        answer = await self._requests.is_in(position, previous=True)
        if not answer.no:  # the restart has not been reported yet
            self._doubt(answer)
            self._output.take_rest(position, await self._read(position, previous="true"))
            restarts += 1
        elif not self._output.ends_with_note:
            self._output.note(_GAP, restarts)
        self._earlier, self._position = position, Position(restarts)

    def _doubt(self, answer: Answer) -> None:
        if answer.unknown:
            self._output.note(_DOUBT, self._position.restarts)

    async def _read_previous(self, restarts: int) -> None:
        """Read the rest of the log from before the last restart; then a new log begins.

        If lines from after the restart were read before the restart was reported, reading continues after them.
        """
        try:
            last = await self._requests.last_of_previous()
            seen = not self._position.first or self._position.first <= last
            self._earlier = earlier = self._position if seen else self._earlier or Position()
            earlier.restarts = restarts - 1
            await self._read_to_its_end(earlier)
        except ApiError as error:
            self._no_previous += 1
            if error.status not in (400, 404) or self._no_previous < _NO_PREVIOUS_TRIES:
                raise
            self._output.note(_NO_PREVIOUS, restarts - 1)
        else:
            self._position = Position() if seen else self._position
        self._earlier, self._no_previous, self._position.restarts = None, 0, restarts

    async def _read_to_its_end(self, position: Position) -> None:
        try:
            rest = await self._read(position, previous="true")
        except Moved:
            answer = await self._requests.is_in(position, previous=True)
            self._doubt(answer)
            if answer.no:
                self._output.note(_GAP, position.restarts)
                self._earlier = new = Position(position.restarts)
                if position is self._position:
                    self._position = new  # an answer that breaks off is continued there
                position = new
            rest = await self._read(position, previous="true")
        self._output.take_rest(position, rest)

    async def _read(self, position: Position, **which: str) -> Splitter:
        """Read one answer; return its splitter, with the bytes after its last whole line."""
        output, splitter = self._output, Splitter()
        try:
            async with self._requests.answer(position, **which) as answer:
                self.failing = False
                async for part in answer.stream.parts():
                    answer.received = float("inf")  # `put` may be slow
                    for block, continued in splitter.feed(part):
                        output.take(position, block, continued=continued)
                    answer.received = time.monotonic()
                    if splitter.rest and output.partial and position.caught_up:
                        output.partial(splitter.rest)
        except ApiError as error:  # 400 and 404 tell of a container, or a pod, that is gone
            self._broke_off |= not (error.status in (400, 404) or self._read_after_end)
            raise
        _check_there(splitter)
        self._answered, self._broke_off = True, False
        return splitter
