"""What notebooks show, as HTML with a style of its own. All foreign text is escaped, and secrets in it are hidden."""

import importlib.resources
import time
from collections.abc import Sequence

from tfsteps.console.outputs import REPLICA_COLUMNS, replica_row, results
from tfsteps.console.text import clean
from tfsteps.report import charts as drawing
from tfsteps.report.curves import Charts
from tfsteps.report.formats import natural
from tfsteps.report.html import Child, Html, tag
from tfsteps.runs.status import Status

_SHOWN_CHARTS = 8
_CLASS = "tfsteps-output"


def frame(*parts: Html) -> str:
    """Return the parts as one element, with their style."""
    style = importlib.resources.files("tfsteps.api").joinpath("notebook.css").read_text(encoding="utf-8")
    return tag("div", tag("style", Html(style)), *parts, class_=_CLASS)


def attempt(status: Status, curves: Charts | None, job_notes: Sequence[str] = (), lines: Sequence[str] = ()) -> Html:
    """Return the state of an attempt, its replicas, its results or last lines, and its curves.

    Args:
        status: Its status.
        curves: Its curves; None = they are not known here.
        job_notes: Notes, below its name.
        lines: The last lines of its log, while it runs.
    """
    now, identity = time.time(), status.identity
    message = clean(status.message) if not status.state.terminal else ""
    ends = results(status) if status.state.terminal else [*lines]
    names = sorted({curve.run for chart in curves.charts for curve in chart.curves}, key=natural) if curves else []
    shown = curves.charts[:_SHOWN_CHARTS] if curves else []
    hidden = len(curves.charts) - len(shown) if curves else 0
    more = [f"{hidden} more charts are in the report."] if hidden > 0 else []
    return tag(
        "section",
        tag("p", tag("b", status.state.value, class_=f"is-{status.state.value}"), f" {identity.task} ", message),
        tag("p", f"run {identity.run}, attempt {identity.attempt}, {status.system}", class_="quiet"),
        notes(job_notes),
        table(list(REPLICA_COLUMNS), [replica_row(replica, now) for replica in status.replicas]),
        notes([*status.warnings, *more]),
        tag("pre", "\n".join(ends)) if ends else Html(""),
        charts([drawing.figure(chart, place, names) for place, chart in enumerate(shown)]),
    )


def table(header: Sequence[str], rows: Sequence[Sequence[Child]]) -> Html:
    """Return a table."""
    head = tag("tr", *[tag("th", name.capitalize() if name.isupper() else name, scope="col") for name in header])
    body = [tag("tr", *[tag("td", cell) for cell in row]) for row in rows]
    return tag("table", tag("thead", head), tag("tbody", *body))


def charts(figures: Sequence[Html]) -> Html:
    """Return charts beside each other."""
    return tag("div", *figures, class_="charts") if figures else Html("")


def notes(sentences: Sequence[str]) -> Html:
    """Return notes as a list; nothing if there are none."""
    return tag("ul", *[tag("li", clean(sentence)) for sentence in sentences], class_="quiet") if sentences else Html("")
