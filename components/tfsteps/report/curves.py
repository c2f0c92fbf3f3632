"""The curves of a report: every scalar of the event files, thinned out until a page can hold them."""

import json
import math
import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tfsteps.runs.store import open_private
from tfsteps.tensorboard.event_files import POLL_BYTES, Scalar, ScalarReader

_READ = 64 << 20  # of more than this the rest is left out
_TAGS = 40
_RUNS = 12
_KNOWN = 500  # curves that are kept while reading
_POINTS = 8_000  # in the whole report
_MOST, _FEWEST = 1_000, 20  # of one curve
_CROWDED = 20_000  # points of one curve that are kept while reading


class Point(NamedTuple):
    """One value."""

    step: int
    value: float


class Curve(msgspec.Struct, kw_only=True):
    """One run's values of one tag.

    Attributes:
        run: Folder below the log folder; `.` = itself.
        points: By step, each step once; finite values alone.
        last: The last point of all.
        bad: How many values were infinite or NaN.
        first_bad: Step of the first of them; None = there were none.
    """

    run: str
    points: list[Point] = []
    last: Point
    bad: int = 0
    first_bad: int | None = None


class Chart(msgspec.Struct, kw_only=True):
    """All curves of one tag; `more` counts the runs left out."""

    tag: str
    curves: list[Curve]
    more: int = 0


class Charts(msgspec.Struct, kw_only=True):
    """What the event files hold.

    Attributes:
        charts: The wanted tags first, then by name.
        more: Names of the tags left out.
        cut: Whether the files were too long to be read to their end.
        denied: Path of a file or folder that this user may not read; empty = all may be read.
    """

    charts: list[Chart] = []
    more: list[str] = []
    cut: bool = False
    denied: str = ""


def gather(logdir: str | os.PathLike[str], preferred: Sequence[str] = ()) -> Charts:
    """Return the curves below `logdir`, which need not exist; those that `wanted` names come first."""
    read, reader = _read(logdir)
    by_tag: dict[str, list[_Values]] = {}
    for values in read:
        by_tag.setdefault(values.tag, []).append(values)
    first = {tag for tag in by_tag if any(name == tag or name.endswith(f"/{tag}") for name in preferred)}
    tags = sorted(by_tag, key=lambda tag: (tag not in first, tag))
    shown = {tag: sorted(by_tag[tag], key=lambda values: values.run)[:_RUNS] for tag in tags[:_TAGS]}
    limit = max(_FEWEST, min(_MOST, _POINTS // max(1, sum(map(len, shown.values())))))
    charts = [
        Chart(tag=tag, curves=[values.curve(limit) for values in runs], more=len(by_tag[tag]) - len(runs))
        for tag, runs in shown.items()
    ]
    return Charts(charts=charts, more=tags[_TAGS:], cut=reader.behind, denied=reader.denied)


def save(charts: Charts, path: pathlib.Path) -> None:
    """Write `charts` to a file, for a report that cannot read the event files. OSError if that fails."""
    with open_private(path, "wb") as file:
        file.write(json.dumps(msgspec.to_builtins(charts)).encode())  # a last value may be NaN, which msgspec drops


def saved(path: pathlib.Path) -> Charts | None:
    """Return what `save` wrote; None where it wrote nothing, or the file is garbled."""
    try:
        return msgspec.convert(json.loads(path.read_bytes()), Charts)
    except (OSError, ValueError, RecursionError):  # msgspec's and JSON's errors are ValueErrors
        return None


def thin(points: Sequence[Point], limit: int) -> list[Point]:
    """Return at most `limit` (4 or more) of `points`, with the first, the last and the extremes of each stretch."""
    if len(points) <= limit:
        return list(points)
    inner, buckets = points[1:-1], (limit - 2) // 2
    kept = [points[0]]
    for number in range(buckets):
        stretch = inner[number * len(inner) // buckets : (number + 1) * len(inner) // buckets]
        low, high = min(stretch, key=_value), max(stretch, key=_value)
        kept += sorted({low, high})
    return [*kept, points[-1]]


def _value(point: Point) -> float:
    return point.value


class _Values:
    """One curve while it is read, in bounded memory."""

    def __init__(self, scalar: Scalar) -> None:
        self.run, self.tag = scalar.run, scalar.tag
        self._scalars: list[tuple[int, float, float]] = []  # step, wall time, value
        self._last = (scalar.step, scalar.wall_time, scalar.value)
        self._bad: list[int] = [0, scalar.step]  # how many, and the first step

    def add(self, scalar: Scalar) -> None:
        entry = (scalar.step, scalar.wall_time, scalar.value)
        if entry[:2] >= self._last[:2]:
            self._last = entry
        if not math.isfinite(scalar.value):
            self._bad = [self._bad[0] + 1, min(self._bad[1], scalar.step) if self._bad[0] else scalar.step]
            return
        self._scalars.append(entry)
        if len(self._scalars) > _CROWDED:
            self._scalars = [(point.step, 0.0, point.value) for point in thin(self._points(), _CROWDED // 4)]

    def curve(self, limit: int) -> Curve:
        bad, first_bad = self._bad
        return Curve(
            run=self.run,
            points=thin(self._points(), limit),
            last=Point(self._last[0], self._last[2]),
            bad=bad,
            first_bad=first_bad if bad else None,
        )

    def _points(self) -> list[Point]:
        """Return one point a step, the one written last: a job that went on from a checkpoint repeats steps."""
        return [Point(*point) for point in {step: (step, value) for step, _, value in sorted(self._scalars)}.values()]


def _read(logdir: str | os.PathLike[str]) -> tuple[list[_Values], ScalarReader]:
    """Return what the event files hold, and the reader, which knows what was left out."""
    known: dict[tuple[str, str], _Values] = {}
    reader = ScalarReader(logdir)
    for _ in range(_READ // POLL_BYTES):
        for scalar in reader.poll():
            key = scalar.run, scalar.tag
            if key not in known and len(known) < _KNOWN:
                known[key] = _Values(scalar)
            if key in known:
                known[key].add(scalar)
        if not reader.behind:
            break
    return list(known.values()), reader
