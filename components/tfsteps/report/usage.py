"""The part of the report about CPU, memory and GPUs over time."""

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tfsteps.report.curves import Point
from tfsteps.report.formats import UNKNOWN, size
from tfsteps.report.html import Html, tag
from tfsteps.report.usage_chart import UsageChart, UsageCurve, figure
from tfsteps.runs.store import AttemptFolder
from tfsteps.runs.usage import ReplicaUsage, Sample, Usage, UsageSummary
from tfsteps.spec import Resources, RoleName

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


def usage(attempt: AttemptFolder) -> Html | None:
    """Return what is notable, the curves of each role, and a table; None if nothing was recorded."""
    recorded = Usage.read(attempt.folder)
    notes = [tag("p", note, class_="note") for note in recorded.notes]
    if not recorded.replicas:
        return tag("div", *notes) if notes else None
    groups = _groups(recorded.replicas)
    of_programs = [(role, usages) for (role, container), usages in groups.items() if not container]
    notable = [
        tag("li", sentence)
        for role, usages in of_programs
        if role in recorded.requests
        for sentence in sentences(usages, recorded.requests[role])
    ]
    created = attempt.status().created
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


def _groups(usages: Sequence[ReplicaUsage]) -> _Groups:
    groups: _Groups = {}
    for usage in sorted(usages, key=lambda usage: [int(number) for number in re.findall("[0-9]+$", usage.replica)]):
        groups.setdefault((usage.role, usage.container), []).append(usage)
    return groups


def _charts(usages: Sequence[ReplicaUsage], request: Resources, created: float) -> Iterator[UsageChart]:
    """Yield a chart of each measure that is known of the replicas of a role: those with the highest peaks."""
    for measure in _MEASURES:
        known = [usage for usage in usages if measure.peak(usage.summary) is not None]
        highest = sorted(known, key=lambda usage: measure.peak(usage.summary) or 0.0, reverse=True)[:_DRAWN]
        if not known:
            continue
        requested, limit = measure.requested(request), measure.limit(request)
        both = [("request = limit", limit)] if requested == limit else [("request", requested), ("limit", limit)]
        yield UsageChart(
            title=f"{measure.title} of {usages[0].role}",
            curves=[_curve(usage, measure, created) for usage in known if usage in highest],
            bounds=[(name, amount) for name, amount in both if amount],
            unit="" if measure.text is size else "GPUs" if measure.title == "GPU" else "cores",
            more=len(known) - len(highest),
        )


def _curve(usage: ReplicaUsage, measure: _Measure, created: float) -> UsageCurve:
    points = [
        Point(max(round(sample.at - created), 0), amount)
        for sample in usage.samples
        if (amount := measure.sampled(sample)) is not None
    ]
    summary = f"mean {measure.text(measure.mean(usage.summary))}, peak {measure.text(measure.peak(usage.summary))}"
    return UsageCurve(usage.replica, points, summary)


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
