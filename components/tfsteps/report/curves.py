"""The curves of a report: the scalars of the event files, reduced to as many points as a page can hold."""

import json
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tfsteps.report.formats import natural
from tfsteps.runs.store import Attempt, open_private
from tfsteps.tensorboard.event_files import POLL_BYTES, Scalar, ScalarReader

_READ = 64 << 20  # bytes; the rest of longer event files is left out
_TAGS = 40
_RUNS = 12
_KNOWN = 500  # curves kept while reading
_POINTS = 8_000  # in the whole report
_MOST, _FEWEST = 1_000, 20  # points of one curve
_CROWDED = 20_000  # points of one curve kept while reading


class Point(NamedTuple):
    """One value."""

    step: int
    value: float


class Curve(msgspec.Struct, kw_only=True):
    """The values of one tag in one run.

    Attributes:
        run: Folder below the log folder; `.` = the log folder itself.
        points: Finite values only, one for each step, ordered by step.
        last: The last point; its value may be infinite or NaN.
        bad: Number of infinite and NaN values.
        first_bad: Step of the first infinite or NaN value; None = there is none.
    """

    run: str
    points: list[Point] = []
    last: Point
    bad: int = 0
    first_bad: int | None = None


class Chart(msgspec.Struct, kw_only=True):
    """The curves of one tag; `more` is the number of runs left out."""

    tag: str
    curves: list[Curve]
    more: int = 0


class Charts(msgspec.Struct, kw_only=True):
    """The content of the event files.

    Attributes:
        charts: The preferred tags first, then ordered by name.
        more: Names of the tags left out.
        cut: Whether the files were too long to be read to their end.
        denied: Path of a file or folder that this user may not read; empty = none.
    """

    charts: list[Chart] = []
    more: list[str] = []
    cut: bool = False
    denied: str = ""


def gather(logdir: str | os.PathLike[str], preferred: Sequence[str] = ()) -> Charts:
    """Return the curves below `logdir`, which need not exist; tags in `preferred` come first."""
    read, reader = _read(logdir)
    by_tag: dict[str, list[_Values]] = {}
    for values in read:
        by_tag.setdefault(values.tag, []).append(values)
    first = {tag for tag in by_tag if any(name == tag or name.endswith(f"/{tag}") for name in preferred)}
    tags = sorted(by_tag, key=lambda tag: (tag not in first, natural(tag)))
    shown = {tag: sorted(by_tag[tag], key=lambda values: natural(values.run))[:_RUNS] for tag in tags[:_TAGS]}
    limit = _limit(sum(map(len, shown.values())))
    charts = [
        Chart(tag=tag, curves=[values.curve(limit) for values in runs], more=len(by_tag[tag]) - len(runs))
        for tag, runs in shown.items()
    ]
    return Charts(charts=charts, more=tags[_TAGS:], cut=reader.behind, denied=reader.denied)


def of_attempt(attempt: Attempt, logs: str, preferred: Sequence[str]) -> Charts | None:
    """Return the curves saved by the launcher, else those in the event files; None = the files cannot be read."""
    if (charts := saved(attempt.curves)) is not None:
        return charts
    return gather(logs, preferred) if logs and pathlib.Path(logs).is_dir() else None


def overlay(charts_by_run: Mapping[str, Charts], preferred: Sequence[str] = ()) -> Charts:
    """Return the curves of several runs in shared charts: one chart for each tag and folder, one curve for each run.

    Args:
        charts_by_run: The curves of each run of a pipeline or job; the curves returned are called by these keys.
        preferred: Tags that come first.
    """
    shared: dict[str, list[Curve]] = {}
    for run, charts in charts_by_run.items():
        for chart in charts.charts:
            for curve in chart.curves:
                title = chart.tag if curve.run == "." else f"{curve.run}/{chart.tag}"
                shared.setdefault(title, []).append(msgspec.structs.replace(curve, run=run))
    first = {title for title in shared if any(title == tag or title.endswith(f"/{tag}") for tag in preferred)}
    titles = sorted(shared, key=lambda title: (title not in first, natural(title)))
    limit = _limit(sum(len(shared[title][:_RUNS]) for title in titles[:_TAGS]))
    return Charts(
        charts=[
            Chart(
                tag=title,
                curves=[msgspec.structs.replace(curve, points=thin(curve.points, limit)) for curve in curves[:_RUNS]],
                more=len(curves[_RUNS:]),
            )
            for title, curves in ((title, shared[title]) for title in titles[:_TAGS])
        ],
        more=[*titles[_TAGS:], *sorted({tag for charts in charts_by_run.values() for tag in charts.more} - {*titles})],
        cut=any(charts.cut for charts in charts_by_run.values()),
    )


def _limit(curves: int) -> int:
    """Return how many points each of so many curves may have."""
    return max(_FEWEST, min(_MOST, _POINTS // max(1, curves)))


def save(charts: Charts, path: pathlib.Path) -> None:
    """Write `charts` to a file, for a report that cannot read the event files. OSError if that fails."""
    with open_private(path, "wb") as file:
        file.write(json.dumps(msgspec.to_builtins(charts)).encode())  # a last value may be NaN, which msgspec drops


def saved(path: pathlib.Path) -> Charts | None:
    """Return the charts that `save` wrote; None if the file is missing or damaged."""
    try:
        return msgspec.convert(json.loads(path.read_bytes()), Charts)
    except (OSError, ValueError, RecursionError):  # msgspec's and JSON's errors are ValueErrors
        return None


def thin(points: Sequence[Point], limit: int) -> list[Point]:
    """Return at most `limit` (4 or more) of `points`: the first, the last, and the extremes of each section."""
    if len(points) <= limit:
        return list(points)
    inner, sections = points[1:-1], (limit - 2) // 2
    kept = [points[0]]
    for number in range(sections):
        section = inner[number * len(inner) // sections : (number + 1) * len(inner) // sections]
        low, high = min(section, key=_value), max(section, key=_value)
        kept += sorted({low, high})
    return [*kept, points[-1]]


def _value(point: Point) -> float:
    return point.value


class _Values:
    """Collects one curve in bounded memory."""

    def __init__(self, scalar: Scalar) -> None:
        self.run, self.tag = scalar.run, scalar.tag
        self._scalars: list[tuple[int, float, float]] = []  # step, wall time, value
        self._last = (scalar.step, scalar.wall_time, scalar.value)
        self._bad: list[int] = [0, scalar.step]  # number of infinite and NaN values, and the first step

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
        """Return the last value of each step; a job that resumed from a checkpoint repeats steps."""
        return [Point(*point) for point in {step: (step, value) for step, _, value in sorted(self._scalars)}.values()]


def _read(logdir: str | os.PathLike[str]) -> tuple[list[_Values], ScalarReader]:
    """Return the curves in the event files, and the reader, whose attributes say what was left out."""
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
