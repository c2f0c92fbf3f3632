"""The curves in event files after restarts, as TensorBoard shows them."""

import math
import os
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple, Protocol, TypeVar

from tfsteps.spec import is_uri
from tfsteps.tensorboard.event_files import EventFile, EventOrigin, FilePath, curve_name, event_files, open_regular
from tfsteps.tensorboard.event_records import Event

_CROWDED = 20_000  # values of one curve kept while reading
_KNOWN, _FEW = 500, 50  # of further curves so few values are kept
_CHUNK = 8 << 20
_STARTS = 2  # the first version of the format whose events say where a session starts


class _ValuePoint(Protocol):
    @property
    def value(self) -> float: ...


P = TypeVar("P", bound=_ValuePoint)


def thin(points: Sequence[P], limit: int) -> list[P]:
    """Return at most `limit` (4 or more) of `points`: the first, the last, and the extremes of each section."""
    if len(points) <= limit:
        return list(points)
    inner, sections = points[1:-1], (limit - 2) // 2
    kept = [points[0]]
    for number in range(sections):
        start, end = number * len(inner) // sections, (number + 1) * len(inner) // sections
        low, high = (pick(range(start, end), key=lambda at: inner[at].value) for pick in (min, max))
        kept += [inner[at] for at in sorted({low, high})]
    return [*kept, points[-1]]


class EventValue(NamedTuple):
    """One value of a curve; `file` is the place of its file in `EventCurves.files`."""

    step: int
    value: float
    file: int


class EventCurve:
    """One curve, ordered by step: of each step the value written last. A smaller step drops what was written after it.

    Attributes:
        run: Folder below the log folder; `.` = the log folder itself.
        tag: Its tag.
        finite: The finite values; of very many not all.
        bad: The infinite and NaN values; of very many the first and the last.
        more_bad: How many of these are left out.
        files: The places of the files with values of this curve, in `EventCurves.files`.
        exact: Whether `last` is the last value. Not after a session start among values of which not all were kept.
    """

    def __init__(self, run: str, tag: str, limit: int) -> None:
        """Begin without values; `limit` = how many of each kind are kept while reading."""
        self.run, self.tag = run, tag
        self.finite: list[EventValue] = []
        self.bad: list[EventValue] = []
        self.more_bad = 0
        self.files: list[int] = []
        self.exact = True
        self._limit = limit
        self._thinned = -math.inf  # up to this step not all values are kept

    @property
    def name(self) -> str:
        """`<run>/<tag>`, or the tag alone for files in the log folder itself."""
        return curve_name(self.run, self.tag)

    @property
    def last(self) -> EventValue | None:
        """The last value, which may be infinite or NaN; None = a session start has dropped all."""
        return max([*self.finite[-1:], *self.bad[-1:]], default=None)

    def add(self, value: EventValue) -> None:
        """Append a value."""
        self._drop(value.step)
        self.exact = True
        if self.files[-1:] != [value.file]:
            self.files.append(value.file)
        values = self.finite if math.isfinite(value.value) else self.bad
        values.append(value)
        if len(values) > self._limit:
            self._thinned = value.step
            if values is self.finite:
                self.finite = thin(values, self._limit // 4)
            else:
                self.more_bad += len(values) // 2
                del values[1 : len(values) // 2 + 1]

    def start(self, step: int) -> None:
        """Drop what was written of `step` and later ones: a session starts here."""
        self.exact = self.exact and step > self._thinned
        self._drop(step)

    def _drop(self, step: int) -> None:
        for values in (self.finite, self.bad):
            while values and values[-1].step >= step:
                values.pop()


class ReadFile(NamedTuple):
    """One event file that was read.

    Attributes:
        path: Where it is.
        first: The first time of an event, in seconds since the epoch; infinite = it has none.
        last: The last one; 0 = it has none.
        trouble: Why it was not read to its end, `is damaged at byte 40`; empty = it was, so far as it is written.
        rest: How many bytes at its end are not a whole record.
    """

    path: FilePath
    first: float
    last: float
    trouble: str
    rest: int


class EventCurves:
    """The curves of one attempt.

    Attributes:
        curves: By run and tag.
        files: The files that were read, ordered as TensorBoard reads them.
        left_out: The files that are not, or not known to be, of the attempt.
        denied: Path of a folder that this user may not read; empty = all may be read.
        cut: Whether reading stopped at its limit.
    """

    def __init__(self) -> None:
        """Begin without curves."""
        self.curves: dict[tuple[str, str], EventCurve] = {}
        self.files: list[ReadFile] = []
        self.left_out: list[FilePath] = []
        self.denied = ""
        self.cut = False

    @classmethod
    def read(
        cls, logdir: str | os.PathLike[str], origin: EventOrigin | None = None, limit: float = math.inf
    ) -> "EventCurves":
        """Read the event files below a folder, which need not exist, or a URI.

        Args:
            logdir: The folder.
            origin: What tells which files count; None = all do.
            limit: How many bytes are read.

        Raises:
            OSError: The bucket of a URI cannot be listed; the message says why, and what to do.
        """
        read = cls()
        opened: Callable[[str], tuple[IO[bytes], int]] = open_regular
        if is_uri(os.fspath(logdir)):
            from tfsteps.tensorboard.object_store import files_below, open_object  # noqa: PLC0415  most jobs have none

            files, opened = files_below(os.fspath(logdir)), open_object
        else:
            files = event_files(logdir, read._deny)
        counted: list[FilePath] = []
        for path in files:
            (counted if origin is None or origin.counts(path) else read.left_out).append(path)
        versions: dict[str, float] = {}
        for path in sorted(counted, key=lambda path: (path.run, path.name)):
            file = EventFile(path, opened)
            read._take(file, versions, limit)
            limit -= file.spent
        return read

    def _take(self, file: EventFile, versions: dict[str, float], limit: float) -> None:
        first, last, run = math.inf, 0.0, file.path.run
        before = -1
        while file.spent < limit and before != file.spent:
            before = file.spent
            for event in file.read(_CHUNK):
                if event.wall_time > 0:
                    first, last = min(first, event.wall_time), max(last, event.wall_time)
                if event.version is not None:
                    versions[run] = event.version
                if event.starts and versions.get(run, 0) >= _STARTS:
                    for curve in self.curves.values():
                        if curve.run == run:
                            curve.start(event.step)
                self._add(run, event)
        self.cut = self.cut or file.spent >= limit
        self.files.append(ReadFile(file.path, first, last, file.trouble, file.rest))

    def _add(self, run: str, event: Event) -> None:
        for tag, number in event.scalars:
            curve = self.curves.get((run, tag))
            if curve is None:
                curve = EventCurve(run, tag, _CROWDED if len(self.curves) < _KNOWN else _FEW)
                self.curves[run, tag] = curve
            curve.add(EventValue(event.step, number, len(self.files)))

    def _deny(self, error: OSError) -> None:
        if isinstance(error, PermissionError):
            self.denied = os.fsdecode(error.filename)

    def trouble(self, run: str, after: int = 0) -> list[str]:
        """Return what is not known of a run, since the file at `after`: `train/events.1 is damaged at byte 40`.

        The last file of a run may end within a record. An earlier one may too: its writer was killed and replaced.
        """
        files = [(at, file) for at, file in enumerate(self.files) if file.path.run == run]
        sentences = []
        for at, file in files:
            if at >= after and file.trouble:
                sentences.append(f"{file.path.shown} {file.trouble}")
            elif at >= after and file.rest and at == files[-1][0]:
                sentences.append(f"{file.path.shown} ends within a record, {file.rest} bytes before its end")
        return sentences

    def rivals(self, curve: EventCurve) -> tuple[str, str] | None:
        """Return two files that were written at the same time and have values of the curve; None = there are none."""
        latest: ReadFile | None = None
        for file in (self.files[at] for at in dict.fromkeys(curve.files)):
            if latest and file.first < latest.last:
                return latest.path.shown, file.path.shown
            latest = file if latest is None or file.last > latest.last else latest
        return None
