"""Draws what replicas used over time as SVG, with their request and limit as lines."""

from collections.abc import Sequence

import msgspec

from tfsteps.report.charts import Scale, colour
from tfsteps.report.curves import Point
from tfsteps.report.formats import plural
from tfsteps.report.html import Html, number, tag
from tfsteps.tensorboard.event_curves import thin

_WIDTH, _HEIGHT = 380.0, 210.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 50.0, 12.0, 12.0, 26.0
_POINTS = 300  # of one curve
_DOTTED = 24  # a curve of at most this many points shows a dot for each
_TIMES = ((3 * 86400.0, 86400.0, "d"), (2 * 3600.0, 3600.0, "h"), (120.0, 60.0, "min"), (0.0, 1.0, "s"))
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class UsageCurve(msgspec.Struct, frozen=True):
    """The usage of one replica.

    Attributes:
        name: `worker-1`.
        points: Whole seconds since the job was created, and the amount.
        summary: Mean and peak as text.
    """

    name: str
    points: Sequence[Point]
    summary: str


class UsageChart(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of the replicas of a role.

    Attributes:
        title: `Memory of worker`.
        curves: At least one.
        bounds: Name and amount of each line: request and limit.
        unit: Of the amounts; empty = bytes, shown in the largest binary unit that fits.
        more: Number of replicas that are not drawn.
    """

    title: str
    curves: Sequence[UsageCurve]
    bounds: Sequence[tuple[str, float]] = ()
    unit: str = ""
    more: int = 0


def figure(chart: UsageChart, names: Sequence[str]) -> Html:
    """Return one chart; `names` are the replicas of all charts of the role, which fix their colours."""
    x, y, time_unit, amount_unit = _scales(chart)
    svg = tag(
        "svg",
        _grid(x, y),
        tag("g", *[_bound(name, amount / amount_unit[0], y) for name, amount in chart.bounds], class_="bounds"),
        *[_curve(curve, x, y, (time_unit[0], amount_unit[0]), colour(curve.name, names)) for curve in chart.curves],
        viewBox=f"0 0 {number(_WIDTH)} {number(_HEIGHT)}",
        role="img",
        aria_label=f"{chart.title} over time. " + "; ".join(f"{curve.name}: {curve.summary}" for curve in chart.curves),
    )
    unit = f"{amount_unit[1]}, {time_unit[1]} since creation"
    more = tag("p", f"{plural(chart.more, 'more replica')} with lower peaks not drawn.", class_="note")
    return tag(
        "figure",
        tag("figcaption", chart.title, tag("span", f" {unit}", class_="quiet")),
        svg,
        _legend(chart.curves, names),
        more if chart.more else None,
        class_="chart",
    )


def _scales(chart: UsageChart) -> tuple[Scale, Scale, tuple[float, str], tuple[float, str]]:
    """Return both scales, and the seconds and the amount that one unit of them stands for, with their names."""
    points = [point for curve in chart.curves for point in curve.points]
    last = max([float(point.step) for point in points] + [1.0])
    most = max([point.value for point in points] + [amount for _, amount in chart.bounds])
    time_unit = next((seconds, name) for least, seconds, name in _TIMES if last >= least)
    sizes = [(1.0, chart.unit)] if chart.unit else [(float(size), name) for size, name in _SIZES if most >= size]
    amount_unit = (sizes or [(1.0, "bytes")])[0]
    first = min(float(point.step) for point in points)
    first = first if first < last else last - 1.0
    x = Scale(first / time_unit[0], last / time_unit[0], _LEFT, _WIDTH - _RIGHT)
    y = Scale(0.0, (most or 1.0) * 1.06 / amount_unit[0], _HEIGHT - _BOTTOM, _TOP)
    return x, y, time_unit, amount_unit


def _grid(x: Scale, y: Scale) -> Html:
    parts = []
    for value in y.ticks():
        at = y.at(value)
        parts += [
            tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at),
            tag("text", f"{value:.4g}", x=_LEFT - 8, y=at + 3.5, text_anchor="end"),
        ]
    for value in x.ticks():
        anchor = "end" if x.at(value) > _WIDTH - _RIGHT - 12 else "middle"
        parts.append(tag("text", f"{value:.4g}", x=x.at(value), y=_HEIGHT - 8, text_anchor=anchor))
    return tag("g", *parts, class_="grid")


def _bound(name: str, amount: float, y: Scale) -> Html:
    at = y.at(amount)
    text = tag("text", name, x=_WIDTH - _RIGHT, y=at + 12 if at < _TOP + 14 else at - 4, text_anchor="end")
    return tag("g", tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at), text)


def _curve(curve: UsageCurve, x: Scale, y: Scale, units: tuple[float, float], classes: str) -> Html:
    spots = [
        (number(x.at(point.step / units[0])), number(y.at(point.value / units[1])))
        for point in thin(curve.points, _POINTS)
    ]
    line = tag("path", d="M" + "L".join(f"{left},{top}" for left, top in spots))
    dots = [tag("circle", cx=left, cy=top, r=2.5) for left, top in spots] if len(spots) <= _DOTTED else []
    return tag("g", line, *dots, class_=f"curve {classes}", data_tip=f"{curve.name}: {curve.summary}")


def _legend(curves: Sequence[UsageCurve], names: Sequence[str]) -> Html:
    items = [
        tag(
            "li",
            tag("span", class_=f"key {colour(curve.name, names)}"),
            tag("span", curve.name, class_="run"),
            tag("span", curve.summary, class_="quiet"),
        )
        for curve in curves
    ]
    return tag("ul", *items, class_="legend")
