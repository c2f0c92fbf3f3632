"""The event files below a folder: reading them while they are written, whose each is, and whether they grow.

Several attempts, and other jobs, may write to one folder. Growth is a sign of life of programs that print nothing.
"""

import contextlib
import math
import os
import pathlib
import re
import stat
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import IO, NamedTuple, Self

import msgspec

from tfsteps.tensorboard.event_records import Event, holds_summary, masked_crc32c, masked_crc_of_length, parse

POLL_BYTES = 8 << 20
"""One poll reads no more than this, and the record that it reached."""

_MAX_RECORD = 1 << 20  # what is larger is passed over unread unless it holds a summary, as TensorFlow 1 merges them
_MAX_SUMMARY = 32 << 20  # what is larger holds images
_HEAD = 32  # bytes of an event, in which its kind stands

UNKNOWN_ATTEMPT = -1
"""The number of an attempt that is not known."""

CLOCKS_SECONDS = 30.0
"""By so much the clocks of nodes, file servers and the API server differ without a remark."""

_NAME = re.compile(r"events\.out\.tfevents\.([0-9]+)\.(.+)")  # the second and the host of its creation


class Scalar(NamedTuple):
    """One value of one curve.

    Attributes:
        run: The folder of its file below the log folder, with `/`; `.` for the log folder itself.
        tag: Name of the curve.
        step: As the program counts; may be negative.
        wall_time: Seconds since the epoch; finite.
        value: May be infinite or NaN.
    """

    run: str
    tag: str
    step: int
    wall_time: float
    value: float

    @property
    def name(self) -> str:
        """`<run>/<tag>`, or the tag alone for files in the log folder itself."""
        return curve_name(self.run, self.tag)


def curve_name(run: str, tag: str) -> str:
    """Return `<run>/<tag>`, or the tag alone for files in the log folder itself."""
    return tag if run == "." else f"{run}/{tag}"


class FilePath(NamedTuple):
    """An event file below a log folder: its path or URI, the folder as in `Scalar.run`, and its name."""

    path: str
    run: str
    name: str

    @property
    def shown(self) -> str:
        """Its path below the log folder."""
        return curve_name(self.run, self.name)


def event_files(logdir: str | os.PathLike[str], denied: Callable[[OSError], None] | None = None) -> Iterator[FilePath]:
    """Yield the event files below a folder, in any order; `denied` is called with the error of each unread folder."""
    for folder, _, names in os.walk(logdir, onerror=denied):
        for name in names:
            if "tfevents" in name:
                run = os.fsencode(os.path.relpath(folder, logdir)).decode(errors="replace")
                path = os.path.join(folder, name)  # noqa: PTH118  thousands of files, once a second
                yield FilePath(path, run, os.fsencode(name).decode(errors="replace"))


class ScalarReader:
    """Reads the scalars of all event files below a folder, each once.

    A file is read up to its last whole record, and further when it has grown; at the first invalid record, reading it
    stops.

    Attributes:
        behind: Whether the last poll stopped at its limit: the next one will find more at once.
    """

    def __init__(
        self, logdir: str | os.PathLike[str], is_selected: Callable[[FilePath], bool] = lambda _: True
    ) -> None:
        """Name the folder, which need not exist yet, and which of its files are read."""
        self.behind = False
        self._logdir, self._is_selected = pathlib.Path(logdir), is_selected
        self._known: set[str] = set()
        self._queue: deque[EventFile] = deque()  # the one that was read last stands last, so that none waits for ever

    def poll(self) -> list[Scalar]:
        """Return what is new since the last call, in the order of each file; empty if there is nothing."""
        for path in event_files(self._logdir):
            if path.path not in self._known:
                self._known.add(path.path)
                if self._is_selected(path):
                    self._queue.append(EventFile(path))
        scalars: list[Scalar] = []
        budget = POLL_BYTES
        for _ in range(len(self._queue)):
            if budget <= 0:
                break
            file = self._queue.popleft()
            self._queue.append(file)
            before = file.spent
            for event in file.read(budget):
                scalars += (Scalar(file.path.run, tag, event.step, event.wall_time, v) for tag, v in event.scalars)
            budget -= file.spent - before
        self.behind = budget <= 0
        return scalars


def open_regular(path: str) -> tuple[IO[bytes], int]:
    """Return an open file and its size in bytes. OSError also for what is no regular file: a fifo would hang."""
    status = os.stat(path)  # noqa: PTH116
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a regular file")
    return open(path, "rb"), status.st_size  # noqa: PTH123


class EventFile:
    """One event file, and how far it was read.

    Attributes:
        path: Where it is.
        at: Where the record stands that is read next.
        spent: How many bytes of it were read; records without scalars may be passed over.
        trouble: Why it cannot be read further, `is damaged at byte 40`; empty = it can, or was read to its end.
    """

    def __init__(self, path: FilePath, opened: Callable[[str], tuple[IO[bytes], int]] = open_regular) -> None:
        """Begin at its start; `opened` returns the open file and its size, and may raise OSError."""
        self.path, self.at, self.spent, self.trouble = path, 0, 0, ""
        self._opened = opened
        self._size = 0
        self._broken = False

    def read(self, budget: int) -> Iterator[Event]:
        """Yield the events of the next records, of `budget` bytes and the record that passes it."""
        if self._broken:
            return
        self.trouble = ""
        try:
            file, self._size = self._opened(self.path.path)
            with file:
                file.seek(self.at)
                end = self.spent + budget
                while self.spent < end and (data := self._record(file)) is not None:
                    event = parse(data)
                    self.at += 16 + len(data)
                    self.spent += 16 + len(data)
                    yield event
        except OSError as error:  # it disappeared, or its disk fails: the next call may succeed
            self.trouble = f"could not be read: {error.strerror or error}"
        except ValueError:
            self._broken, self.trouble = True, f"is damaged at byte {self.at}"

    @property
    def rest(self) -> int:
        """How many bytes at its end are not a whole record."""
        return max(0, self._size - self.at)

    def _record(self, file: IO[bytes]) -> bytes | None:
        """Return the next record that was not passed over; None if it is not whole yet. ValueError if it is none."""
        while len(head := file.read(12)) == 12:
            if masked_crc_of_length(head[:8]) != _uint32(head[8:]):
                raise ValueError("not a record")
            (length,) = struct.unpack("<Q", head[:8])
            if self.at + 16 + length > self._size:
                return None
            data = file.read(min(length, _HEAD))
            if length <= _MAX_RECORD or (length <= _MAX_SUMMARY and holds_summary(data)):
                data += file.read(length - len(data))
                crc = file.read(4)
                if len(crc) < 4:
                    return None
                if masked_crc32c(data) != _uint32(crc):
                    raise ValueError("damaged record")
                return data
            self.at += 16 + length
            file.seek(self.at)
        return None


def _uint32(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


class EventOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What tells the event files of an attempt from the others in the folder. No new file is left out by a clock alone.

    Attributes:
        attempt: Number of the attempt.
        earlier: Whether what earlier attempts wrote counts too.
        job: uid of the attempt's job; empty = not known.
        hosts: Host names that only replicas of one attempt have, without what follows `-`: the attempt by host name.
            Writers put the host into the file's name. Empty = the host names of replicas do not tell.
        since: When the job was created, in seconds since the epoch: an older file of these hosts may be of an earlier
            job of the same name, and does not count unless `before` lacks it. 0 = not known.
        before: The event files that existed before the job was started, by path below the folder, with the attempt that
            wrote them. None = the folder was not read then.
    """

    attempt: int
    earlier: bool = False
    job: str = ""
    hosts: Mapping[str, int] = {}
    since: float = 0.0
    before: Mapping[str, int] | None = None

    def attempt_of(self, file: FilePath) -> int:
        """Return the number of the attempt that wrote a file; `UNKNOWN_ATTEMPT` = of another job, or not known."""
        if (attempt := self._by_host(file)) is None:
            return UNKNOWN_ATTEMPT if self.before is None else self.before.get(file.shown, self.attempt)
        was_there = self.before is None or file.shown in self.before
        return UNKNOWN_ATTEMPT if attempt == self.attempt and was_there and self._older(file) else attempt

    def doubted(self, file: FilePath) -> float | None:
        """Return when a file with this attempt's host name was created, if that leaves open which job wrote it.

        In seconds since the epoch, by the clock of its writer. None = it is not older than the job, or the folder was
        read before the job was started.
        """
        is_own = self.before is None and self._by_host(file) == self.attempt
        return self._older(file) if is_own else None

    def _by_host(self, file: FilePath) -> int | None:
        """Return the number of the attempt whose replicas' host name is in a file's name; None = of none."""
        host = match[2] if (match := _NAME.match(file.name)) else ""
        numbers = (number for name, number in self.hosts.items() if re.match(rf"{re.escape(name)}(?![a-z0-9])", host))
        return next(numbers, None)

    def _older(self, file: FilePath) -> float | None:
        """Return when a file was created, by its writer's clock, if that is before the job; None = it is not."""
        match = _NAME.match(file.name)
        created = float(match[1]) if match else math.inf
        return created if self.predated_by(created) else None

    def predated_by(self, moment: float) -> bool:
        """Return whether a time by another clock is before the job, by more than clocks differ."""
        return moment < self.since - CLOCKS_SECONDS

    def counts(self, file: FilePath) -> bool:
        """Return whether the values of a file are values of this attempt."""
        return self.earlier or self.attempt_of(file) == self.attempt

    def predates(self, file: FilePath) -> bool:
        """Return whether a file is known to be older than this attempt."""
        return self.attempt_of(file) not in (self.attempt, UNKNOWN_ATTEMPT) or file.shown in (self.before or ())


class EventFileGrowth:
    """Checks the event files below a folder for growth, as long as its `with` block lasts.

    In a thread of its own: the folder may be on a network file system that does not answer.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        seconds: float,
        sizes: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        """Prepare to check.

        Args:
            logdir: The folder. If it does not exist here, or not yet, it does not grow.
            seconds: Pause between two checks.
            sizes: Returns the sizes of the event files by path; None = the files below `logdir`.
        """
        self._sizes = sizes or (lambda: file_sizes(logdir))
        self._seconds = seconds
        self._grown = threading.Event()
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        """Start to check."""
        threading.Thread(target=self._look, name="event files", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop to check."""
        self._closed.set()

    def grown(self) -> bool:
        """Tell whether the event files have grown since the last call."""
        grown = self._grown.is_set()
        self._grown.clear()
        return grown

    def _look(self) -> None:
        known: Mapping[str, int] | None = None
        while True:
            with contextlib.suppress(Exception):  # an object store fails in many ways; the next check may succeed
                sizes = self._sizes()
                if known is not None and sizes != known:
                    self._grown.set()
                known = sizes
            if self._closed.wait(self._seconds):
                return


def file_sizes(logdir: str | os.PathLike[str]) -> dict[str, int]:
    """Return the size in bytes of each event file below a folder, by path; files that cannot be read are left out."""
    sizes = {}
    for folder, _, names in os.walk(logdir):
        for path in (os.path.join(folder, name) for name in names if "tfevents" in name):  # noqa: PTH118  as there
            with contextlib.suppress(OSError):
                sizes[path] = os.stat(path).st_size  # noqa: PTH116
    return sizes
