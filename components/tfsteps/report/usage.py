"""The part of the report about CPU, memory and GPUs over time."""

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tfsteps.report.charts import Scale, colour
from tfsteps.report.curves import Point
from tfsteps.report.formats import UNKNOWN, plural, size
from tfsteps.report.html import Html, number, tag
from tfsteps.runs.store import AttemptFolder
from tfsteps.runs.usage import ReplicaUsage, Sample, Usage, UsageSummary
from tfsteps.spec import Resources, RoleName
from tfsteps.tensorboard.event_curves import thin

_WIDTH, _HEIGHT = 380.0, 210.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 50.0, 12.0, 12.0, 26.0
_POINTS = 300  # of one curve
_DOTTED = 24  # a curve of at most this many points shows a dot for each
_TIMES = ((3 * 86400.0, 86400.0, "d"), (2 * 3600.0, 3600.0, "h"), (120.0, 60.0, "min"), (0.0, 1.0, "s"))
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_DRAWN = 8  # replicas in one chart
_NAMED = 3  # replicas near their limit
_NEAR = 0.95  # share of the memory limit
_LITTLE = 0.5  # share of a request
_ENOUGH_SECONDS = 60.0  # of samples, before a request is called too large


_Groups = dict[tuple[RoleName, str], list[ReplicaUsage]]
"""The usages by role and container, the replicas in natural order."""


class _Measure(msgspec.Struct, frozen=True):
    """One kind of usage: how it is read from samples, summaries and requests, and how it is shown.

    Attributes:
        title: In headings.
        noun: After an amount that was requested.
        text: Formats an amount.
        sampled: The amount of a sample.
        mean: The mean of a summary.
        peak: The peak of a summary.
        requested: The request.
        limit: The limit; None = there is none.
    """

    title: str
    noun: str
    text: Callable[[float | None], str]
    sampled: Callable[[Sample], float | None]
    mean: Callable[[UsageSummary], float | None]
    peak: Callable[[UsageSummary], float | None]
    requested: Callable[[Resources], float | None]
    limit: Callable[[Resources], float | None]


def _decimal(amount: float | None) -> str:
    return UNKNOWN if amount is None else f"{amount:.2g}" if amount < 10 else f"{amount:.3g}"


_MEASURES = (
    _Measure(
        title="CPU",
        noun="requested cores",
        text=_decimal,
        sampled=lambda sample: sample.cpu,
        mean=lambda summary: summary.cpu_mean,
        peak=lambda summary: summary.cpu_peak,
        requested=lambda resources: resources.cpu,
        limit=lambda resources: resources.cpu_limit,
    ),
    _Measure(
        title="Memory",
        noun="requested memory",
        text=size,
        sampled=lambda sample: sample.memory if sample.memory_peak is None else sample.memory_peak,
        mean=lambda summary: summary.memory_mean,
        peak=lambda summary: summary.memory_peak,
        requested=lambda resources: resources.memory,
        limit=lambda resources: resources.memory_limit,
    ),
    _Measure(
        title="GPU",
        noun="requested GPUs",
        text=_decimal,
        sampled=lambda sample: sample.gpu,
        mean=lambda summary: summary.gpu_mean,
        peak=lambda summary: summary.gpu_peak,
        requested=lambda resources: resources.gpu or None,
        limit=lambda _resources: None,
    ),
)


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


def usage(attempt: AttemptFolder, created: float) -> Html | None:
    """Return what is notable, the curves of each role, and a table; None if nothing was recorded.

    `created` is when the job was created, in seconds since the epoch.
    """
    recorded = Usage.read(attempt.folder)
    notes = [tag("p", note, class_="note") for note in recorded.notes]
    if not recorded.replicas:
        return tag("div", *notes) if notes else None
    groups: _Groups = {}
    for usage in sorted(recorded.replicas, key=lambda usage: int((re.findall("[0-9]+$", usage.replica) or [0])[0])):
        groups.setdefault((usage.role, usage.container), []).append(usage)
    of_programs = [(role, usages) for (role, container), usages in groups.items() if not container]
    notable = [
        tag("li", sentence)
        for role, usages in of_programs
        if role in recorded.requests
        for sentence in sentences(usages, recorded.requests[role])
    ]
    charts = [
        figure(chart, [curve.name for curve in chart.curves])
        for role, usages in of_programs
        for chart in _charts(usages, recorded.requests.get(role, Resources()), created)
    ]
    return tag(
        "div",
        tag("ul", *notable, class_="warnings") if notable else None,
        tag("div", *charts, class_="charts"),
        _table(groups, recorded),
        *notes,
    )


def sentences(usages: Sequence[ReplicaUsage], request: Resources) -> Iterator[str]:
    """Yield what is notable about the usage of the replicas of one role, compared with what each of them requests."""
    if limit := request.memory_limit:
        peaks = [(usage.summary.memory_peak or 0, usage.replica) for usage in usages]
        near = sorted([pair for pair in peaks if pair[0] >= _NEAR * limit], key=lambda pair: -pair[0])
        for peak, replica in near[:_NAMED]:
            where = "reached" if peak >= limit else f"was within {1 - _NEAR:.0%} of"
            yield f"{replica} {where} its memory limit: {size(peak)} of {size(limit)}."
        if near[_NAMED:]:
            yield f"{len(near) - _NAMED} more of {usages[0].role} were within {1 - _NEAR:.0%} of their memory limit."
    if min(usage.summary.seconds for usage in usages) < _ENOUGH_SECONDS:
        return
    for measure in _MEASURES:
        requested = measure.requested(request)
        highest = max((measure.peak(usage.summary) or 0.0 for usage in usages), default=0.0)
        if requested and 0 < highest < _LITTLE * requested:
            who = f"No {usages[0].role} used more than" if len(usages) > 1 else f"{usages[0].replica} used at most"
            amount = measure.text(requested) if measure.text is size else f"{requested:g}"
            yield f"{who} {measure.text(highest)} of {amount} {measure.noun}."


def _charts(usages: Sequence[ReplicaUsage], request: Resources, created: float) -> Iterator[UsageChart]:
    """Yield a chart of each measure that is known of the replicas of a role: those with the highest peaks."""
    for measure in _MEASURES:
        known = [usage for usage in usages if measure.peak(usage.summary) is not None]
        highest = sorted(known, key=lambda usage: measure.peak(usage.summary) or 0.0, reverse=True)[:_DRAWN]
        if not known:
            continue
        requested, limit = measure.requested(request), measure.limit(request)
        both = [("request = limit", limit)] if requested == limit else [("request", requested), ("limit", limit)]
        curves = []
        for usage in (usage for usage in known if usage in highest):
            mean, peak = measure.text(measure.mean(usage.summary)), measure.text(measure.peak(usage.summary))
            amounts = [(sample.at - created, measure.sampled(sample)) for sample in usage.samples]
            points = [Point(max(round(at), 0), amount) for at, amount in amounts if amount is not None]
            curves.append(UsageCurve(usage.replica, points, f"mean {mean}, peak {peak}"))
        yield UsageChart(
            title=f"{measure.title} of {usages[0].role}",
            curves=curves,
            bounds=[(name, amount) for name, amount in both if amount],
            unit="" if measure.text is size else "GPUs" if measure.title == "GPU" else "cores",
            more=len(known) - len(highest),
        )


def _table(groups: _Groups, recorded: Usage) -> Html:
    """Return a table of each role, and of each kind of sidecar in it."""
    measures = [m for m in _MEASURES if any(m.peak(usage.summary) is not None for usage in recorded.replicas)]
    heads = [
        "Role",
        "Replicas",
        *[f"{m.title} {what}" for m in measures for what in ("mean", "peak", "request", "limit")],
    ]
    rows = []
    for (role, container), usages in groups.items():
        summary = UsageSummary()
        for usage in usages:
            summary.merge(usage.summary)
        request = Resources() if container else recorded.requests.get(usages[0].role, Resources())
        amounts = [
            measure.text(amount)
            for measure in measures
            for amount in (
                measure.mean(summary),
                measure.peak(summary),
                measure.requested(request),
                measure.limit(request),
            )
        ]
        rows.append([f"{role} · {container}" if container else role, str(len(usages)), *amounts])
    head = tag("tr", *[tag("th", text, scope="col") for text in heads])
    body = [tag("tr", *[tag("td", text) for text in row]) for row in rows]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="scroll")


# --- charts, as SVG


def figure(chart: UsageChart, names: Sequence[str]) -> Html:
    """Return one chart; `names` are the replicas of all charts of the role, which fix their colours."""
    points = [point for curve in chart.curves for point in curve.points]
    last = max([float(point.step) for point in points] + [1.0])
    most = max([point.value for point in points] + [amount for _, amount in chart.bounds])
    # what one unit of the scales stands for, and its name
    seconds, time_unit = next((seconds, name) for least, seconds, name in _TIMES if last >= least)
    sizes = [(1.0, chart.unit)] if chart.unit else [(float(n), name) for n, name in _SIZES if most >= n]
    unit_size, amount_unit = (sizes or [(1.0, "bytes")])[0]
    first = min(float(point.step) for point in points)
    before = last - max(1.0, last * 1e-9)  # another number even if `last` is huge
    x = Scale((first if first < last else before) / seconds, last / seconds, _LEFT, _WIDTH - _RIGHT)
    y = Scale(0.0, (most or 1.0) * 1.06 / unit_size, _HEIGHT - _BOTTOM, _TOP)
    svg = tag(
        "svg",
        _grid(x, y),
        tag("g", *[_bound(name, amount / unit_size, y) for name, amount in chart.bounds], class_="bounds"),
        *[_curve(curve, x, y, (seconds, unit_size), colour(curve.name, names)) for curve in chart.curves],
        viewBox=f"0 0 {number(_WIDTH)} {number(_HEIGHT)}",
        role="img",
        aria_label=f"{chart.title} over time. " + "; ".join(f"{curve.name}: {curve.summary}" for curve in chart.curves),
    )
    legend = [
        tag(
            "li",
            tag("span", class_=f"key {colour(curve.name, names)}"),
            tag("span", curve.name, class_="run"),
            tag("span", curve.summary, class_="quiet"),
        )
        for curve in chart.curves
    ]
    unit = f"{amount_unit}, {time_unit} since creation"
    more = tag("p", f"{plural(chart.more, 'more replica')} with lower peaks not drawn.", class_="note")
    return tag(
        "figure",
        tag("figcaption", chart.title, tag("span", f" {unit}", class_="quiet")),
        svg,
        tag("ul", *legend, class_="legend"),
        more if chart.more else None,
        class_="chart",
    )


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
