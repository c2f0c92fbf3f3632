"""Splits the bytes of a pod's log into lines with times, each line once. Works on blocks of lines, for speed."""

import datetime as dt
import functools
import re
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence

import msgspec

from tfsteps.answer import NO, YES, Answer, known, unknown

LONGEST_LINE = (1 << 20) + 100
"""Bytes of a line and its time stamp. Lines up to 1 MiB are kept whole; longer lines are split at this size."""

_LATE = dt.timedelta(milliseconds=100)  # a line may follow a line whose time is later by this much
_PARTIAL_SECONDS = 1.0
_SECOND = len("2026-11-21T08:00:01")
_MANY_SECONDS = 64
_OBJECTS = 150  # bytes of memory per line beside its text
_TIMELESS = b"(log incomplete: the line before has no time: the node put it there, or dropped lines)"
_SECONDS = rb"(?:19[7-9]\d|[2-8]\d\d\d)-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d"
_LINE = re.compile(rb"^(%b)(\.\d{9})(Z|[+-]\d\d:\d\d) (.*)\n" % _SECONDS, re.MULTILINE)  # as the kubelet writes it
_STAMP = re.compile(rb"(%b)\.?(\d{0,9})(Z|[+-]\d\d:\d\d)(?: |$)" % _SECONDS)
_IMPOSSIBLE = re.compile(rb"\d{4,}-\d+-\d+T\d+:\d+:\d+(?:\.\d*)?(?:Z|[+-]\d\d:\d\d)(?: |$)")


class Lines(msgspec.Struct, frozen=True):
    """Consecutive lines of a container.

    Attributes:
        texts: The bytes of each line, without the line end.
        stamps: When each line was printed: UTC, `2026-11-21T08:00:01.500000Z`; text order is time order.
        incomplete: Whether one of them says that lines may be missing.
        restarts: Number of restarts of the container before it printed them.
    """

    texts: list[bytes]
    stamps: list[bytes]
    incomplete: bool = False
    restarts: int = 0

    @property
    def size(self) -> int:
        """The approximate memory use in bytes."""
        return sum(map(len, self.texts)) + _OBJECTS * len(self.texts)


def note(why: str, restarts: int) -> Lines:
    """Return a line that reports missing lines, for the run after `restarts` restarts."""
    return Lines([b"(log incomplete: %b)" % why.encode()], [_shown(_now())], incomplete=True, restarts=restarts)


def epoch(stamp: bytes) -> float:
    """Return a time as `Lines` have it in seconds since the epoch."""
    return dt.datetime.fromisoformat(stamp.decode()).timestamp()


class Moved(Exception):  # noqa: N818  not an error
    """The log does not continue after the lines already read: its beginning is gone, or it is another log."""


class Partial:
    """Passes on an unfinished line: at most once a second, and only if it has grown, even if it is read again."""

    def __init__(self, put: Callable[[bytes], object]) -> None:
        """Pass the line to `put`, without its time stamp."""
        self._put = put
        self._due = 0.0
        self._last = (b"", 0)  # the time stamp and the length of the line that was passed on last

    def apply(self, line: bytearray) -> None:
        """Pass on `line` if it is due and has grown."""
        if time.monotonic() < self._due:
            return
        match = _STAMP.match(line)
        stamp = match[0] if match else b""
        if stamp == self._last[0] and len(line) <= self._last[1]:
            return
        self._due, self._last = time.monotonic() + _PARTIAL_SECONDS, (stamp, len(line))
        self._put(bytes(line[len(stamp) :]))


class _End(msgspec.Struct, frozen=True):
    """How the lines that were read end. The last line alone does not identify a place: equal lines may share a time.

    Attributes:
        last: The mark (hash) of the last line.
        row: How many lines at the end have the time of the last line.
        row_mark: The mark of all these.
        before: The mark of the line before these; 0 = none was read.
    """

    last: int = 0
    row: int = 0
    row_mark: int = 0
    before: int = 0

    def extended(self, marks: Iterable[int]) -> "_End":
        """Return the end after further lines with the same time."""
        last, row, row_mark = self.last, self.row, self.row_mark
        for last in marks:
            row, row_mark = row + 1, hash((row_mark, last))
        return _End(last, row, row_mark, self.before)


class _Second(msgspec.Struct):
    """The lines read of one second: their count, and the position and mark (hash) of the first."""

    count: int
    first: int
    mark: int


class Position:
    """How far the log of one run of a container has been read.

    The API resumes at a whole second, so an answer begins with lines that were read before. That many lines are
    skipped if the first of them is unchanged and they end as before (`_End`); else the log has `Moved`. Times cannot
    identify lines: two writers stamp standard output and error, and either may be late [source: containerd,
    `pkg/cri/io/logger.go`]; other runtimes give many lines the same time; and clocks are set back.

    Attributes:
        lines: Number of lines read.
        first: When the first line was printed, UTC, in nanoseconds; empty = no line was read.
        last: The same for the last line.
        restarts: Number of restarts of the container before this run.
    """

    def __init__(self, restarts: int = 0) -> None:
        """Begin before the first line."""
        self.lines = 0
        self.first = self.last = b""
        self.restarts = restarts
        self._seconds: dict[bytes, _Second] = {}
        self._begin = 0  # the mark of the first line
        self._end = _End()
        self._before = b""  # the time of the line that `_end.before` marks
        self._located: tuple[int, int] | None = None  # lines to skip and the mark of the first, as `search` found them
        self._stamp = b""  # the time of the last line parsed
        self._skip = 0
        self._expected: int | None = None
        self._whole = False  # whether to search the whole log
        self._untimed = 0  # lines without a proper time since the last one that has one
        self._untimed_skip = 0

    def resume(self) -> dict[str, str]:
        """Return the query for the API. `take` expects the answer to it."""
        self._skip, self._expected, self._untimed_skip = 0, None, self._untimed
        if not self.lines:
            return {}
        since = b"" if self._whole else self._since()
        if self._located:
            self._skip, self._expected = self._located
        else:
            seen = [second for at, second in self._seconds.items() if at >= since]
            self._skip = sum(second.count for second in seen)
            self._expected = min(seen, key=lambda second: second.first).mark
        return {"sinceTime": f"{since.decode()}Z"} if since else {}

    def take(self, block: bytes, *, continued: bool = False) -> Lines | None:
        """Return the new lines of a block; None if there are none.

        Args:
            block: Whole lines with line ends.
            continued: The first line is the rest of the last line taken.

        Raises:
            Moved: The lines read before are not at their place.
        """
        stamps, texts, untimed = self._parsed(block, continued=continued)
        if self._expected is not None and texts:
            untimed.pop(0, None)  # the rest of a line that began before the requested time
            if _mark(stamps[0], texts[0]) != self._expected:
                raise Moved
            self._expected = None
        if self._skip and texts:
            last, before = self._skip - 1, self._skip - 1 - self._end.row
            for place, mark in ((last, self._end.last), (before, self._end.before)):
                if 0 <= place < len(texts) and _mark(stamps[place], texts[place]) != mark:
                    raise Moved
            passed = min(self._skip, len(texts))
            self._skip -= passed
            stamps, texts = stamps[passed:], texts[passed:]
            untimed = {place - passed: lines for place, lines in untimed.items() if place >= passed and not self._skip}
        if not texts and not untimed:
            return None
        if again := untimed.get(0, [])[: self._untimed_skip]:
            self._untimed_skip -= len(again)
            untimed[0] = untimed[0][len(again) :]
        shown = [b"%bZ" % stamp[:26] for stamp in stamps]
        lines = self._joined(shown, texts, untimed) if untimed else Lines(texts, shown, restarts=self.restarts)
        if texts:
            self._note(stamps, texts)
        self._untimed += sum(len(lines) for place, lines in untimed.items() if place == len(texts))
        return lines if lines.texts else None

    @property
    def caught_up(self) -> bool:
        """Whether the next line is new."""
        return not self._skip and self._expected is None

    def expect_next(self) -> None:
        """Make `take` expect what follows the last line, and no answer to `resume`."""
        self._skip, self._expected, self._untimed_skip = 0, None, 0

    def look_everywhere(self) -> bool:
        """Make the next `resume` ask for the whole log: after a clock was set back, the API leaves out lines.

        Return False if it did already, and no line has been read since.
        """
        before, self._whole = self._whole, True
        return not before

    @property
    def last_lines(self) -> str:
        """The query for the lines that `is_last` needs."""
        return str(self._end.row + 1)

    async def search(self, blocks: AsyncIterable[tuple[bytes, bool]]) -> Answer:
        """Tell whether an answer to `resume` has the last line that was read.

        Unless it has not, the next answer to `resume` continues after that line. Not known: equal lines are there, but
        the lines before them are gone or others, so lines may be missing.

        Args:
            blocks: Of the answer, each with the arguments for `take`.
        """
        lines = first_mark = candidates = 0
        ending, ending_stamp = _End(), b""
        place: tuple[int, _End] | None = None  # after the last candidate: lines up to it, and how they end
        async for block, continued in blocks:
            stamps, texts, _ = self._parsed(block, continued=continued)
            for stamp, text in zip(stamps, texts, strict=True):
                mark = _mark(stamp, text)
                row = ending if stamp == ending_stamp else _End(before=ending.last)
                ending, ending_stamp = row.extended([mark]), stamp
                first_mark = first_mark or mark
                lines += 1
                same_place = place and place[1] == self._end
                if mark == self._end.last and (not same_place or (self._whole and lines == self.lines)):
                    candidates += 1
                    place = lines, ending
        self._located = None
        if not place:
            return NO
        end, self._end = self._end, place[1]
        self._located = place[0], first_mark
        complete = self._whole and first_mark == self._begin and place[0] == self.lines
        certain = complete or (self._end == end if end.before else candidates == 1)
        return YES if certain else unknown("equal lines have the same time")

    def is_last(self, blocks: Iterable[tuple[bytes, bool]]) -> Answer:
        """Tell whether the last line read ends `blocks`, the answer to `last_lines`; not known if they have no line."""
        marks: list[int] = []
        for block, continued in blocks:
            stamps, texts, _ = self._parsed(block, continued=continued)
            marks += map(_mark, stamps, texts)
        if not marks:
            return unknown("no line is there")
        row = self._end.row
        before = marks[-1 - row] if len(marks) > row else 0
        return known(_End(before=before).extended(marks[-row:]) == self._end)

    # --- the place

    def _since(self) -> bytes:
        """Return the second to read from again, by the times of the last lines: the clock may have been set back."""
        last = dt.datetime.fromisoformat(self.last[: _SECOND + len(".123456")].decode())
        second = (last - _LATE).isoformat(timespec="seconds").encode()
        return min(second, self._before[:_SECOND] or second)

    def _note(self, stamps: Sequence[bytes], texts: Sequence[bytes]) -> None:
        """Record what is needed to find the position again."""
        if not self.first:
            self.first, self._begin = stamps[0], _mark(stamps[0], texts[0])
        # for each second its lines; a block usually is of one second, and has thousands of lines
        of_one_second = min(stamps)[:_SECOND] == max(stamps)[:_SECOND]
        for stamp, text in [(stamps[0], texts[0])] if of_one_second else zip(stamps, texts, strict=True):
            count = len(texts) if of_one_second else 1
            if second := self._seconds.get(stamp[:_SECOND]):
                second.count += count
            else:
                self._seconds[stamp[:_SECOND]] = _Second(count, self.lines, _mark(stamp, text))
            self.lines += count
        last = begin = len(texts) - 1
        while begin and stamps[begin - 1] == stamps[last]:
            begin -= 1
        if begin:
            self._before, self._end = stamps[begin - 1], _End(before=_mark(stamps[begin - 1], texts[begin - 1]))
        elif stamps[last] != self.last:
            self._before, self._end = self.last, _End(before=self._end.last)
        self._end = self._end.extended(map(_mark, stamps[begin:], texts[begin:]))
        self.last, self._located, self._whole = stamps[last], None, False
        self._untimed = self._untimed_skip = 0
        if len(self._seconds) > _MANY_SECONDS:
            since = self._since()
            self._seconds = {at: second for at, second in self._seconds.items() if at >= since}

    # --- parsing

    def _parsed(self, block: bytes, *, continued: bool) -> tuple[Sequence[bytes], list[bytes], dict[int, list[bytes]]]:
        """Return the times and texts of the lines, and the lines without a time by the index that they stand before."""
        stamps, texts, untimed = self._parsed_at_once(block) or self._parsed_one_by_one(block, continued=continued)
        self._stamp = stamps[-1] if stamps else self._stamp
        return stamps, texts, untimed

    @staticmethod
    def _parsed_at_once(block: bytes) -> tuple[Sequence[bytes], list[bytes], dict[int, list[bytes]]] | None:
        matches = _LINE.findall(block)
        if matches and len(matches) == block.count(b"\n"):
            seconds, fractions, zones, texts = zip(*matches, strict=True)
            if zones.count(zones[0]) == len(zones):
                utc = [_utc(second, zones[0]) for second in seconds]
                if all(utc):
                    return [at + fraction for at, fraction in zip(utc, fractions, strict=True)], list(texts), {}
        return None

    def _parsed_one_by_one(
        self, block: bytes, *, continued: bool
    ) -> tuple[list[bytes], list[bytes], dict[int, list[bytes]]]:
        stamps: list[bytes] = []
        texts: list[bytes] = []
        untimed: dict[int, list[bytes]] = {}
        for i, line in enumerate(block[:-1].split(b"\n")):
            if continued and i == 0:
                stamps.append(self._stamp or _now())
                texts.append(line)
            elif (match := _STAMP.match(line)) and (utc := _utc(match[1], match[3])):
                stamps.append(b"%b.%b" % (utc, match[2].ljust(9, b"0")))
                texts.append(line[match.end() :])
            else:
                untimed.setdefault(len(texts), []).append(line)
        return stamps, texts, untimed

    def _joined(self, stamps: Sequence[bytes], texts: list[bytes], untimed: dict[int, list[bytes]]) -> Lines:
        """Return lines, including those without a valid time."""
        entries: list[tuple[bytes, bytes]] = []
        at = _shown(self.last or _now())
        incomplete = False
        for i in range(len(texts) + 1):
            for line in untimed.get(i, ()):
                if stamp := _IMPOSSIBLE.match(line):
                    entries.append((at, line[stamp.end() :]))
                else:
                    incomplete = True
                    entries += [(at, part) for part in (line, _TIMELESS) if part]
            if i < len(texts):
                at = stamps[i]
                entries.append((at, texts[i]))
        return Lines([text for _, text in entries], [stamp for stamp, _ in entries], incomplete, self.restarts)


def _shown(stamp: bytes) -> bytes:
    return b"%bZ" % stamp[: _SECOND + len(".123456")]


def _mark(stamp: bytes, text: bytes) -> int:
    return hash((stamp, text))


@functools.lru_cache(256)
def _utc(second: bytes, zone: bytes) -> bytes:
    """Convert a second to UTC; empty if it is not a valid time."""
    try:
        return dt.datetime.fromisoformat((second + zone).decode()).astimezone(dt.UTC).isoformat()[:_SECOND].encode()
    except (ValueError, OverflowError):
        return b""


def _now() -> bytes:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000").encode()


class Splitter:
    """Splits an answer into blocks of whole lines while it arrives.

    Attributes:
        rest: The bytes after the last line end.
    """

    __slots__ = ("_continued", "rest")

    def __init__(self) -> None:
        """Begin at the start of an answer."""
        self.rest = bytearray()
        self._continued = False

    def blocks(self, parts: Iterable[bytes], *, rest: bool = False) -> Iterator[tuple[bytes, bool]]:
        """Yield the blocks of all `parts`; with `rest`, also an unfinished last line."""
        for part in parts:
            yield from self.feed(part)
        if rest:
            yield from self.end()

    def end(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the unfinished last line, if there is one."""
        if self.rest:
            yield bytes(self.rest) + b"\n", self._continued

    async def blocks_of(self, parts: AsyncIterable[bytes]) -> AsyncIterator[tuple[bytes, bool]]:
        """Yield the blocks of all `parts`, which are awaited."""
        async for part in parts:
            for block in self.feed(part):
                yield block

    def feed(self, part: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield blocks of lines with line ends, and whether the first line continues the last of the block before."""
        self.rest += part
        while self.rest.find(b"\n", 0, LONGEST_LINE + 1) < 0 and len(self.rest) > LONGEST_LINE:
            yield bytes(self.rest[:LONGEST_LINE]) + b"\n", self._continued
            del self.rest[:LONGEST_LINE]
            self._continued = True
        if end := self.rest.rfind(b"\n") + 1:
            block = bytes(self.rest[:end])
            del self.rest[:end]
            if self._continued and block.startswith(b"\n"):  # only the line end was missing
                block = block[1:]
                self._continued = False
            if block:
                yield block, self._continued
            self._continued = False
