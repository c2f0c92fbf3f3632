"""The curves of a report: the scalars of the event files, reduced to as many points as a page can hold."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tfsteps import typed_json
from tfsteps.report.formats import natural
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder, open_private
from tfsteps.spec import is_uri
from tfsteps.tensorboard import event_curves
from tfsteps.tensorboard.event_curves import EventCurves, thin

READ_BYTES = 64 << 20
"""The curves of a report need no more than this of the event files; the rest is left out."""

_TAGS = 40
_RUNS = 12
_POINTS = 8_000  # in the whole report
_MOST, _FEWEST = 1_000, 20  # points of one curve


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
        trouble: What is not known: `train/events.1 is damaged at byte 40`.
        left_out: Number of event files that are not, or not known to be, of the attempt.
    """

    charts: list[Chart] = []
    more: list[str] = []
    cut: bool = False
    trouble: list[str] = []
    left_out: int = 0


def gather(read: EventCurves, preferred: Sequence[str] = (), *, ended: bool = True) -> Charts:
    """Return the curves of event files; tags in `preferred` come first. `ended`: nothing more will be written."""
    by_tag: dict[str, list[event_curves.EventCurve]] = {}
    for curve in read.curves.values():
        if curve.last:
            by_tag.setdefault(curve.tag, []).append(curve)
    first = {tag for tag in by_tag if any(name == tag or name.endswith(f"/{tag}") for name in preferred)}
    tags = sorted(by_tag, key=lambda tag: (tag not in first, natural(tag)))
    shown = {tag: sorted(by_tag[tag], key=lambda curve: natural(curve.run))[:_RUNS] for tag in tags[:_TAGS]}
    limit = _limit(sum(map(len, shown.values())))
    charts = [
        Chart(tag=tag, curves=[_curve(curve, limit) for curve in curves], more=len(by_tag[tag]) - len(curves))
        for tag, curves in shown.items()
    ]
    runs = dict.fromkeys(file.path.run for file in read.files)
    trouble = [text for run in runs for text in read.trouble(run)] if ended else []
    trouble += [f"this user may not read {read.denied}"] if read.denied else []
    return Charts(
        charts=charts,
        more=tags[_TAGS:],
        cut=read.cut,
        trouble=trouble,
        left_out=len(read.left_out),
    )


def _curve(curve: event_curves.EventCurve, limit: int) -> Curve:
    assert curve.last
    return Curve(
        run=curve.run,
        points=[Point(step, value) for step, value, _ in thin(curve.finite, limit)],
        last=Point(curve.last.step, curve.last.value),
        bad=len(curve.bad) + curve.more_bad,
        first_bad=curve.bad[0].step if curve.bad else None,
    )


def of_attempt(attempt: AttemptFolder, status: Status, preferred: Sequence[str]) -> Charts | None:
    """Return the curves saved at the job's end, else those that the event files have now; None = they are not read."""
    if (charts := saved(attempt.curves)) is not None:
        return charts
    if not status.logs or is_uri(status.logs) or not pathlib.Path(status.logs).is_dir():
        return None
    read = EventCurves.read(status.logs, attempt.event_origin, READ_BYTES)
    return gather(read, preferred, ended=status.state.terminal)


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
        trouble=[f"{run}: {text}" for run, charts in charts_by_run.items() for text in charts.trouble],
        left_out=sum(charts.left_out for charts in charts_by_run.values()),
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
        return typed_json.convert(json.loads(path.read_bytes()), Charts)
    except (OSError, ValueError, RecursionError):  # msgspec's and JSON's errors are ValueErrors
        return None
