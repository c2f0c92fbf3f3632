"""The page of `tfsteps tune`: what is recommended for the replicas of a job, and the use of each run as bars."""

from collections.abc import Sequence

from tfsteps.report import sections
from tfsteps.report.document import document
from tfsteps.report.html import Html, number, tag
from tfsteps.tuning.recommendation import Advice, TaskTuning, good_runs, range_of, rounded_use, written

_COLOUR = "#68737f"
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 720.0, 190.0, 110.0, 20.0, 26.0
_HEADS = ("Role", "Resource", "Request~limit", "Largest use", "Recommended", "Why")


def page(name: str, tunings: Sequence[TaskTuning]) -> str:
    """Return the page of a pipeline's or job's tasks, as HTML."""
    body = [
        tag("header", tag("p", "tfsteps tuning", class_="kind"), tag("h1", name), class_="comparison"),
        tag("main", *[sections.section(f"task-{i}", t.task, _task(t)) for i, t in enumerate(tunings)]),
    ]
    return document(f"{name} · tuning · tfsteps", _COLOUR, body, ())


def _task(tuning: TaskTuning) -> Html:
    rows = [
        (
            advice.role,
            advice.resource,
            range_of(advice.resource, advice.now),
            rounded_use(advice.resource, advice.most),
            range_of(advice.resource, advice.new),
            "; ".join(advice.reasons),
        )
        for advice in tuning.advices
    ]
    body = [tag("tr", *[tag("td", cell) for cell in row]) for row in rows]
    head = tag("tr", *[tag("th", text, scope="col") for text in _HEADS])
    reasons = [
        tag("li", tag("code", run.attempt.status.identity.run), f": {run.reason}") for run in tuning.runs if run.reason
    ]
    return tag(
        "div",
        tag("p", f"{good_runs(tuning.good)} of {len(tuning.runs)}."),
        tag("p", f"No recommendation: {tuning.off}.", class_="note") if tuning.off else None,
        tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="scroll") if rows else None,
        *[_bars(advice) for advice in tuning.advices if advice.used],
        tag("h3", "Not counted") if reasons else None,
        tag("ul", *reasons, class_="warnings") if reasons else None,
    )


def _bars(advice: Advice) -> Html:
    """Return the use of each run as a bar, the newest first, and lines at what is requested and recommended."""
    now = advice.now
    both = now.request == now.limit
    bounds = [
        ("request = limit" if both else "limit", now.limit),
        ("recommended", advice.new and advice.new.limit),
        ("request", None if both else now.request),
    ]
    known = [(word, amount) for word, amount in bounds if amount]
    scale = (_WIDTH - _LEFT - _RIGHT) / (max([*advice.used.values(), *(amount for _, amount in known)]) or 1.0)
    bottom = _TOP + _ROW * len(advice.used)
    rows = [
        tag(
            "g",
            tag("text", run[:28], x=number(_LEFT - 8), y=number(y + 14), text_anchor="end", font_size=12),
            tag("rect", x=number(_LEFT), y=number(y + 3), width=number(used * scale), height=14, fill=_COLOUR),
            tag(
                "text",
                rounded_use(advice.resource, used),
                x=number(_LEFT + used * scale + 6),
                y=number(y + 14),
                font_size=12,
            ),
        )
        for y, (run, used) in ((_TOP + _ROW * i, item) for i, item in enumerate(advice.used.items()))
    ]
    lines = [
        tag(
            "g",
            tag("line", x1=number(x), x2=number(x), y1=number(_TOP), y2=number(bottom)),
            tag("text", f"{word} {written(advice.resource, amount)}", x=number(x), y=number(y), text_anchor="middle"),
        )
        for y, (word, amount, x) in zip(
            (_TOP - 6, bottom + 14, bottom + 28),
            ((word, amount, _LEFT + amount * scale) for word, amount in known),
            strict=False,
        )
    ]
    svg = tag(
        "svg",
        *rows,
        tag("g", *lines, class_="bounds"),
        viewBox=f"0 0 {number(_WIDTH)} {number(bottom + 34)}",
        role="img",
        aria_label=f"{advice.resource} of {advice.role}: use by run",
        fill="currentColor",
    )
    return tag("figure", tag("figcaption", f"{advice.resource} of {advice.role}, by run, the newest first"), svg)
