"""The log of a rank: parses the platform's answers into lines and reports of the agent, each once and in order.

HAI stores the output of a rank in a few files, which it overwrites in turn, and adds a time stamp to each line. A
request names a line, `last_seen`, by its time stamp and its offset in its file; the answer contains the text after it.
The answer usually ends within a line; its own `last_seen` is the last line that begins in it, complete or not.

Therefore a request names a whole line before the last line read, so that the answer begins with known lines. If it does
not, lines were overwritten or the clock was set back: the whole log is read again, and the last known line is searched.
"""

import datetime as dt
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.platforms.hai.ranks.wire import MARK

NOTHING_YET = "还没产生日志"
"""The platform's answer if there is no log yet."""

_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d{6})\] ")
_STAMP_LENGTH = len("[2026-01-02 03:04:05.000001] ")
_WITHIN = re.compile(rf"[^\n]{_STAMP.pattern}")  # a stamp that is not at the start of a line
_CUT = re.compile(r"\.\.\.\([^\n()]* \d+\W已被截断\)$", re.MULTILINE)  # the end of a line that the server has cut
_REPLACED = "\ufffd"  # replaces one to three bytes that are not UTF-8
_BAR, _IMAGE = "[HFAI_PRINT:TQDM]", "[HFAI_PRINT:IMAGE]"
_FILE_BYTES = 1 << 20  # less than the size of a log file; HAI's files have 2 MiB
_NOWHERE = 1 << 40  # an offset after the end of every file
_COMPARED = 300  # lines are compared by this many characters
_QUARTER_SECONDS = 900  # every offset from UTC is a multiple of this
_ZONE_SECONDS = 15 * 3600
_NAMED = 5  # replicas in a warning
_GAP = "lines may be missing here: HAI overwrote earlier lines before the log was read again"
_BEGINNING = "its beginning is missing: HAI overwrote it before the log was read"

LATE_SECONDS = 60.0
"""A report that is read later than this gets the time stamp of its line, from the clock of the rank."""

Report = dict[str, Any]
Seen = Mapping[str, Any]
Ask = Callable[[Seen | None], Mapping[str, Any]]
Entry = tuple[bytes, bytes | Report]
"""The time in the format of `log_file.stamp`, empty = not known; and a line, or a report of the agent."""


class RankLog:
    """The position up to which the log of one rank has been read.

    Attributes:
        last_seen: The line that the next request names; None = from the beginning.
        rest: The start of an unfinished last line; empty = there is none.
        incomplete: Whether an entry says that lines may be missing.
    """

    def __init__(self) -> None:
        """Start before the first line."""
        self.last_seen: Seen | None = None
        self.rest = b""
        self.incomplete = False
        self._length = (0, True)  # `_size` of the line that `last_seen` names
        self._taken: list[int] = []  # marks of the lines after it that were already read
        self._known: list[int] = []  # the same, and before them the mark of the line that `last_seen` names
        self._last = ""  # time stamp of the last line read
        self._before: Seen | None = None  # the platform's `last_seen` in the previous answer
        self._final = ""  # an unfinished line that was read because the rank has ended
        self._ahead: int | None = None  # seconds by which the rank's clock is ahead of UTC; None = not known

    def read(self, ask: Ask, *, whole: bool = False) -> list[Entry]:
        """Return the new lines and reports of the agent, in order.

        Args:
            ask: Requests the log after a line, None = the whole log; called up to three times.
            whole: Whether the rank has ended, so that an unfinished last line counts as a line.
        """
        page = self._joined(ask, _LogPage(ask(self.last_seen)), whole=whole)
        first = page.find(self._taken) if page else None
        if page and first is None and not self.last_seen:
            first = page.search(self._known)
        asked = self.last_seen
        if first is None and self.last_seen:
            page, asked = _LogPage(ask(None)), None
            first = page.search(self._known)
        if not page or not page.text:
            return []
        why = "" if first is not None else _GAP
        if first is None:
            first = page.later(self._last)
        elif not self._taken and not page.begins:
            why = _BEGINNING
        lines = page.lines[: page.ended if not whole else None]
        entries = self._entries(page, lines[first:], why, whole=whole)
        self.rest = b"" if whole else _unfinished(page.rest)
        if lines:
            self._last = _stamp(lines[-1]) or self._last
            self._move(page, lines, asked)
        return entries

    @property
    def task(self) -> str:
        """Id of the task of the chain whose output was read last; empty = not known."""
        return str((self._before or {}).get("id") or "")

    # --- the position to continue from

    def _move(self, page: "_LogPage", lines: Sequence[str], asked: Seen | None) -> None:
        """Set `last_seen` to the last line before the end of `lines`, which were read, that a request can name."""
        server = page.seen
        if server and asked and server.get("id") != asked.get("id") and page.follows(asked, self._length):
            server = {**server, "id": asked.get("id")}  # the newer task has no output yet
        places = itertools.chain(page.places(server), page.place(self._before))
        last = len(lines) - 1
        for i, seen in places:
            if i < last and _stamp(lines[i]) < _stamp(lines[last]):
                self.last_seen, self._length, first = seen, _size(lines[i] + "\n"), i + 1
                break
        else:
            self.last_seen, first = asked, 0
        self._known = [_mark(line) for line in lines[max(first - 1, 0) :]]
        self._taken = self._known[1:] if first else self._known
        self._before = server or self._before

    def _joined(self, ask: Ask, page: "_LogPage", *, whole: bool) -> "_LogPage | None":
        """Return a page in which a line that continues in the next file is joined; None if that is not possible.

        The platform omits the text of a file before its first stamp, unless the request names an earlier time.
        """
        seen = page.seen
        if not self.last_seen or not seen or not page.doubtful:
            return page
        if page.follows(self.last_seen, self._length):
            return page
        if seen.get("id") != self.last_seen.get("id") or len(page.text) > _FILE_BYTES:
            return None  # more than one line may be cut
        if page.at is None:  # the newer file has one line so far: the text before it cannot be requested yet
            return None if whole else page.without_last(seen)
        if seen["offset"] == 0:
            return page
        earlier = dt.datetime.fromisoformat(seen["timestamp"]) - dt.timedelta(microseconds=1)
        place = {"timestamp": earlier.isoformat(timespec="microseconds"), "offset": _NOWHERE}
        return page.joined(_LogPage(ask({**self.last_seen, **place})))

    # --- from lines to entries

    def _entries(self, page: "_LogPage", lines: Sequence[str], why: str, *, whole: bool) -> list[Entry]:
        self._ahead = page.ahead if page.ahead is not None else self._ahead
        last = [page.rest] if whole and page.rest != self._final and not _begins_stamp(page.rest) else []
        self._final = page.rest if whole else ""
        entries: list[Entry] = []
        if why:
            self.incomplete = True
            stamps = (_STAMP.match(line) for line in lines)
            at = self._time(next(filter(None, stamps), None))
            entries.append((at, f"(log incomplete: {why})".encode()))
        at = b""
        for line, following in itertools.pairwise([*lines, *last, ""]):
            stamp = _STAMP.match(line)
            at = self._time(stamp) or at
            text = line[stamp.end() :] if stamp else line
            if text == "\r" and following[_STAMP_LENGTH:].startswith(MARK):
                continue  # printed by the agent, to end an unfinished line of the program
            entries += [(at, part) for part in _parsed(text)]
        return entries

    def _time(self, stamp: re.Match[str] | None) -> bytes:
        if stamp is None or self._ahead is None:
            return b""
        second = _utc(stamp[1], self._ahead)
        return second and b"%b%bZ" % (second, stamp[2].encode())


class _LogPage:
    """An answer of the platform.

    Attributes:
        text: The whole text; empty = no output.
        lines: The whole lines, each with its time stamp; the first has none if its beginning was overwritten.
        rest: The text after the last newline.
        seen: The platform's `last_seen`.
        at: Position in `text` of the line that `seen` names; None = the line is not in `text`.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        """Parse an answer."""
        text = str(answer.get("data") or "")
        self.text = "" if text == NOTHING_YET else text
        *lines, self.rest = self.text.split("\n")
        # The platform prints an empty line between the tasks of a chain, which may also end an unfinished time stamp.
        self.lines = [line for line in lines if not _begins_stamp(line)]
        self.seen: Seen | None = answer.get("last_seen")
        self.at = self._at(_shown(self.seen))

    def _at(self, stamp: str) -> int | None:
        at = self.text.rfind(f"\n{stamp}") + 1 if stamp else 0
        return at if stamp and (at or self.text.startswith(stamp)) else None

    @property
    def doubtful(self) -> bool:
        """Whether a line may be two lines: it has a stamp within, or the server has cut it."""
        return bool(_WITHIN.search(self.text) or _CUT.search(self.text))

    @property
    def begins(self) -> bool:
        """Whether this can be the beginning of a log, which starts with the agent's report `begun`."""
        if self.lines and not _stamp(self.lines[0]):
            return False
        first = self.text.find(MARK)
        if first < 0:
            return len(self.text) < _FILE_BYTES
        report = _report(self.text[first + len(MARK) :].partition("\n")[0])
        return report is None or report.get("event") == "begun"

    @property
    def ended(self) -> int:
        """How many lines can be read; a last line that the agent may have printed is not counted."""
        return len(self.lines) - (self.lines[-1:] != [] and self.lines[-1][_STAMP_LENGTH:] == "\r")

    @property
    def ahead(self) -> int | None:
        """Seconds by which the rank's clock is ahead of UTC: last stamp minus `mtime` of the file; None = not known."""
        seen = self.seen
        if not seen or self.at is None or not isinstance(mtime := seen.get("mtime"), int | float):
            return None
        stamped = dt.datetime.fromisoformat(seen["timestamp"]).replace(tzinfo=dt.UTC).timestamp()
        ahead = round((stamped - mtime) / _QUARTER_SECONDS) * _QUARTER_SECONDS
        return ahead if abs(ahead) <= _ZONE_SECONDS else None

    def find(self, taken: Sequence[int]) -> int | None:
        """Return the index of the first line after the `taken` lines; None if the page does not begin with them."""
        size = len(taken)
        return size if [_mark(line) for line in self.lines[:size]] == taken else None

    def search(self, known: Sequence[int]) -> int | None:
        """Return the index of the first line after the `known` lines; None if their place in the page is not certain.

        Equal lines may have the same time stamp. So where the first of the `known` lines was overwritten, the last of
        them tells the place only if no other line is equal to it.
        """
        marks, size = [_mark(line) for line in self.lines], len(known)
        ends = [i for i, mark in enumerate(marks, 1) if mark == known[-1]]
        whole = next((i for i in reversed(ends) if i >= size and marks[i - size : i] == known), None)
        return whole or (ends[0] if len(ends) == known.count(known[-1]) == 1 else None)

    def later(self, stamp: str) -> int:
        """Return the index of the first line that is later than `stamp`."""
        return next((i for i in range(len(self.lines), 0, -1) if "" < _stamp(self.lines[i - 1]) <= stamp), 0)

    # --- places: offsets in files

    def follows(self, seen: Seen, length: tuple[int, bool]) -> bool:
        """Return whether the text before `at` directly follows the line `seen`, of this length, in the same file."""
        if self.at is None or not self.seen:
            return False
        least, exact = _size(self.text[: self.at])
        more = int(self.seen["offset"]) - int(seen["offset"]) - length[0] - least
        return more == 0 if exact and length[1] else 0 <= more < _FILE_BYTES

    def places(self, seen: Seen | None) -> Iterator[tuple[int, Seen]]:
        """Yield (index, `last_seen` of the line) of the lines before the one that `seen` names, the last one first."""
        if self.at is None or not seen:
            return
        later = sum(not _begins_stamp(line) for line in self.text[self.at :].split("\n")[:-1])
        offset = seen["offset"]
        for i in range(len(self.lines) - later - 1, -1, -1):
            size, exact = _size(self.lines[i] + "\n")
            offset -= size
            if not exact or offset < 0 or not (stamp := _stamp(self.lines[i])):
                return
            yield i, {**seen, "timestamp": stamp.replace(" ", "T"), "offset": offset}

    def place(self, seen: Seen | None) -> Iterator[tuple[int, Seen]]:
        """Yield (index, `seen`) of the line that `seen` names, if the page contains it."""
        stamp = _shown(seen)[1:-2]
        for i in range(len(self.lines) - 1, -1, -1):
            if seen and _stamp(self.lines[i]) == stamp:
                yield i, seen
                return

    # --- lines split over two files

    def without_last(self, seen: Seen) -> "_LogPage | None":
        """Return the page up to the split line, as an unfinished line; None if there is no such line."""
        lines = self.text.split("\n")
        for i in range(len(lines) - 1, -1, -1):
            if _shown(seen) in lines[i] or _CUT.search(lines[i]):
                return _LogPage({"data": "\n".join(lines[: i + 1])})
        return None

    def joined(self, newer: "_LogPage") -> "_LogPage | None":
        """Return the page with the whole `newer` file in place of the part it has; None if they do not fit together."""
        rest, *others = newer.text.split("\n")
        if _stamp(rest):  # no line is split; or its rest is omitted again, if the newer file has only one stamp
            return self if f"[{_stamp(rest)}] " < _shown(self.seen) else None
        if len(others) < 2:
            return None
        if f"\n{others[0][:_COMPARED]}" in f"\n{self.text}":
            return self  # the split line is the one that the request named
        stamp, following = others[0][:_STAMP_LENGTH], others[1][:_STAMP_LENGTH]
        heads: list[str] = []
        for match in re.finditer(re.escape(f"\n{following}"), self.text):  # more than one line may have this stamp
            end = match.start()
            begin = self.text.rfind("\n", 0, end) + 1
            position = self.text.rfind(stamp, begin + 1, end)
            if position > 0:
                heads.insert(0, self.text[:position] + rest)
            elif _CUT.search(self.text[begin:end]):  # the server cut the line, perhaps before the split
                heads.append(self.text[:end])
        return _LogPage({"data": "\n".join([heads[0], *others]), "last_seen": newer.seen}) if heads else None


def event_time(stamp: bytes, now: float, late: float = LATE_SECONDS) -> float:
    """Return the time of an agent's report: `now`, or its stamp if it is read more than `late` seconds later."""
    at = dt.datetime.fromisoformat(stamp.decode()).timestamp() if stamp else now
    return at if now - at > late else now


def gaps(names: Iterable[str]) -> list[str]:
    """Return a warning that names the replicas with an incomplete log; empty = all logs are complete."""
    names = list(names)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    replicas = ", ".join(names[:_NAMED]) + more
    return [f"Log lines may be missing, as the lines `(log incomplete: ...)` say: {replicas}."] if names else []


def _stamp(line: str) -> str:
    """Return the time stamp of a line; empty = it has none."""
    match = _STAMP.match(line)
    return match[1] + match[2] if match else ""


def _shown(seen: Seen | None) -> str:
    """Return the start of the line that `seen` names; empty = it names no line."""
    timestamp = (seen or {}).get("timestamp")
    return f"[{dt.datetime.fromisoformat(timestamp).isoformat(' ', 'microseconds')}] " if timestamp else ""


def _begins_stamp(text: str) -> bool:
    """Return whether a line ends within its time stamp."""
    return len(text) < _STAMP_LENGTH and "[0000-00-00 00:00:00.000000]".startswith(re.sub(r"\d", "0", text))


def _mark(line: str) -> int:
    return hash(line[:_COMPARED])


def _size(text: str) -> tuple[int, bool]:
    """Return the minimum number of bytes of a text in its file, and whether this number is exact."""
    whole = _CUT.sub("", text)
    replaced = whole.count(_REPLACED)
    return len(whole.encode()) - 2 * replaced, not replaced and whole == text


@functools.lru_cache(256)
def _utc(second: str, ahead: int) -> bytes:
    """Return a second of the rank's clock in UTC; empty if it is not a valid time."""
    try:
        return (dt.datetime.fromisoformat(second) - dt.timedelta(seconds=ahead)).isoformat().encode()
    except (ValueError, OverflowError):
        return b""


def _unfinished(line: str) -> bytes:
    stamp = _STAMP.match(line)
    return _plain((line[stamp.end() :] if stamp else line).partition(MARK)[0]).encode()


def _parsed(text: str) -> Iterator[bytes | Report]:
    """Yield the text of a line, the agent's report in it, or both in this order."""
    text = text.removesuffix("\r")
    before, mark, rest = text.partition(MARK)
    report = _report(rest) if mark else None
    if report is None:
        yield _plain(text).encode()
        return
    if before:
        yield _plain(before).encode()
    yield report


def _report(text: str) -> Report | None:
    """Return an agent's report; None if the text after the mark is not one."""
    try:
        return typed_json.decode(text, Report)
    except NOT_READABLE:
        return None


def _plain(text: str) -> str:
    if text.startswith(_IMAGE):
        return f"(an image of {len(text) - len(_IMAGE)} characters)"
    return text.removeprefix(_BAR)
