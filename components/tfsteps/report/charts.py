"""Draws curves as SVG, and returns their data for the values shown on hover."""

import math
from collections.abc import Sequence

import msgspec

from tfsteps.report.curves import Chart, Curve, Point
from tfsteps.report.formats import plural
from tfsteps.report.html import Html, number, printable, tag

_WIDTH, _HEIGHT = 380.0, 210.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 60.0, 12.0, 12.0, 26.0  # the left margin is wider for long labels
_CHARACTER = 6.8  # width of one in a label
_COLOURS = 6
_DOTTED = 24  # a curve of at most this many points shows a dot for each
_BOUND = 1e300  # differences of larger values overflow; values below its inverse are drawn as 0


def figure(chart: Chart, place: int, runs: Sequence[str]) -> Html:
    """Return one chart. `place` is its index in `data`; `runs` are the runs of all charts, which fix their colours."""
    x, y = _scales(chart)
    svg = tag(
        "svg",
        *_grids(x, y),
        *[_curve(curve, x, y, colour(curve.run, runs)) for curve in chart.curves],
        tag("g", class_="cursor"),
        viewBox=f"0 0 {number(_WIDTH)} {number(_HEIGHT)}",
        role="img",
        aria_label=_description(chart),
        tabindex=0,
        data_chart=place,
    )
    more = tag("p", f"{plural(chart.more, 'more run')} not shown.", class_="note") if chart.more else None
    scale = tag("button", "Log scale", type="button", class_="log", aria_pressed="false", hidden=True)
    return tag("figure", tag("figcaption", chart.tag), scale, svg, _legend(chart, runs), more, class_="chart")


def data(charts: Sequence[Chart]) -> list[dict[str, object]]:
    """Return the data of the script, in the order of `charts`: the tag, the plot area, the scales and the points."""
    plots: list[dict[str, object]] = []
    for chart in charts:
        x, y = _scales(chart)
        curves = [
            {
                "run": printable(_run(c.run)),
                "steps": [p.step for p in c.points],
                "values": [float(f"{p.value:.7g}") for p in c.points],  # the precision of a 32-bit float
            }
            for c in chart.curves
        ]
        plot = [x.start, _TOP, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM]
        plots.append(
            {"tag": printable(chart.tag), "plot": plot, "x": [x.low, x.high], "y": [y.low, y.high], "curves": curves}
        )
    return plots


class Scale(msgspec.Struct, frozen=True):
    """Maps values from `low` to `high` to pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        return self.start + (_bounded(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return three to eight round values, or none if floating-point numbers are too coarse for them."""
        if not (rough := (self.high - self.low) / 5):
            return []
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next((unit * m for m in (1, 2, 5) if unit * m >= rough), unit * 10)
        first = math.ceil(self.low / step)
        return [(first + i) * step for i in range(9) if (first + i) * step <= self.high]


def _scales(chart: Chart) -> tuple[Scale, Scale]:
    points = [point for curve in chart.curves for point in curve.points]
    steps = [_bounded(point.step) for point in points] or [0.0]
    values = [_bounded(point.value) for point in points] or [0.0]
    x_low, x_high = _spread(min(steps), max(steps), 0.0)
    y_low, y_high = _spread(min(values), max(values), 0.06)
    y = Scale(y_low, y_high, _HEIGHT - _BOTTOM, _TOP)
    longest = max(map(len, labels_of(y.ticks())), default=0)
    return Scale(x_low, x_high, max(_LEFT, longest * _CHARACTER + 12), _WIDTH - _RIGHT), y


def _spread(low: float, high: float, margin: float) -> tuple[float, float]:
    """Return bounds around `low` and `high`; the bounds differ even if `low` and `high` are equal."""
    if high - low <= max(abs(low), abs(high)) * 1e-12:
        apart = abs(low) * 0.05 or 1.0
        return low - apart, high + apart
    return low - margin * (high - low), high + margin * (high - low)


def _bounded(value: float) -> float:
    return 0.0 if abs(value) < 1 / _BOUND else max(-_BOUND, min(_BOUND, float(value)))


def _grids(x: Scale, y: Scale) -> tuple[Html, Html]:
    """Return the lines and labels of the y axis, which the script replaces, and those of the x axis."""
    lines, labels = [], []
    ticks = y.ticks()
    for value, text in zip(ticks, labels_of(ticks), strict=True):
        at = y.at(value)
        lines += [
            tag("line", x1=x.start, x2=_WIDTH - _RIGHT, y1=at, y2=at),
            tag("text", text, x=x.start - 8, y=at + 3.5, text_anchor="end"),
        ]
    for value in x.ticks():
        if value == round(value):  # steps are whole numbers
            anchor = "end" if x.at(value) > _WIDTH - _RIGHT - 12 else "middle"
            labels.append(tag("text", label(value), x=x.at(value), y=_HEIGHT - 8, text_anchor=anchor))
    return tag("g", *lines, class_="grid y"), tag("g", *labels, class_="grid x")


def _curve(curve: Curve, x: Scale, y: Scale, classes: str) -> Html:
    spots = [(number(x.at(point.step)), number(y.at(point.value))) for point in curve.points]
    line = tag("path", d="M" + "L".join(f"{left},{top}" for left, top in spots)) if spots else None
    dots = [tag("circle", cx=left, cy=top, r=2.5) for left, top in spots] if len(spots) <= _DOTTED else []
    return tag("g", line, *dots, class_=f"curve {classes}")


def _legend(chart: Chart, runs: Sequence[str]) -> Html:
    items = []
    for curve in chart.curves:
        bad = f"{plural(curve.bad, 'value')} not finite, first at step {curve.first_bad}" if curve.bad else None
        items.append(
            tag(
                "li",
                tag("span", class_=f"key {colour(curve.run, runs)}"),
                tag("span", _run(curve.run), class_="run"),
                tag("b", label(curve.last.value)),
                tag("span", f"at step {curve.last.step:,}", class_="quiet"),
                tag("span", bad, class_="warn") if bad else None,
            )
        )
    return tag("ul", *items, class_="legend")


def _description(chart: Chart) -> str:
    """Return a description of a chart for screen readers."""
    parts = [f"{_run(c.run)}: {_extent(c.points)}, last value {label(c.last.value)}" for c in chart.curves]
    return f"{chart.tag} by step. {'; '.join(parts)}"


def _extent(points: Sequence[Point]) -> str:
    if not points:
        return "no finite value"
    values = [point.value for point in points]
    return f"{label(min(values))} to {label(max(values))} over steps {points[0].step:,} to {points[-1].step:,}"


def colour(run: str, runs: Sequence[str]) -> str:
    """Return the classes that fix the colour and the dashes of a run: its place among all `runs`."""
    place = runs.index(run)
    return f"c{place % _COLOURS} d{place // _COLOURS}"


def _run(run: str) -> str:
    return "all" if run == "." else run


def label(value: float, digits: int = 4) -> str:
    """Return a number in a few characters: `0.125`, `12k`, `1.2e-05`."""
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if unit <= abs(value) < 1e12:
            return f"{value / (1e3 if suffix == 'k' else unit):.{digits}g}{suffix}"
    return f"{0.0 if value == 0 else value:.{digits}g}"


def labels_of(values: Sequence[float]) -> list[str]:
    """Return labels of different values that differ, with as few digits as that takes, at most seven."""
    shown = [[label(value, digits) for value in values] for digits in range(4, 8)]
    return next((labels for labels in shown if len(set(labels)) == len(values)), shown[-1])
