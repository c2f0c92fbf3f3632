"""The page that compares runs: their facts, the inputs that differ, and their curves in shared charts."""

from collections.abc import Sequence

from tfsteps.report import charts, comparison, curves, sections
from tfsteps.report.comparison import Compared, Row
from tfsteps.report.document import document
from tfsteps.report.formats import UNKNOWN, badge
from tfsteps.report.html import Html, tag

_LONGEST = 160  # characters of an input
_COLOUR = "#68737f"


def page(runs: Sequence[Compared]) -> str:
    """Return the page that compares the runs, as HTML."""
    names = [run.run for run in runs]
    tags = [name for run in runs for name in run.metric_tags]
    overlay = curves.overlay({run.run: run.charts for run in runs if run.charts}, tags)
    parts = [
        ("runs", "Runs", _table(names, [*comparison.facts(runs), *comparison.metrics(runs)])),
        ("inputs", "Inputs that differ", _inputs(runs, names)),
        ("curves", "Curves", _curves(overlay, names)),
        ("notes", "What is not known", _notes(runs)),
    ]
    body = [_header(runs), *sections.contents(parts)]
    return document(f"{' · '.join(names)} · tfsteps", _COLOUR, body, overlay.charts)


def _header(runs: Sequence[Compared]) -> Html:
    tasks = dict.fromkeys(run.status.identity.task for run in runs)
    return tag(
        "header",
        tag("p", "tfsteps comparison", class_="kind"),
        tag("h1", f"{', '.join(tasks)}: {len(runs)} runs compared"),
        class_="comparison",
    )


def _table(names: Sequence[str], rows: Sequence[Row]) -> Html:
    """Return a table whose columns are the runs, each with the colour of its curves."""
    heads = [tag("th", _key(name, names), name, scope="col") for name in names]
    body = [
        tag("tr", tag("th", row.name, scope="row"), *[_cell(row.name, value) for value in row.values]) for row in rows
    ]
    table = tag("table", tag("thead", tag("tr", tag("td"), *heads)), tag("tbody", *body), class_="comparison")
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Table of runs")


def _key(name: str, names: Sequence[str]) -> Html:
    return tag("span", class_=f"key {charts.colour(name, names)}")


def _cell(name: str, value: str | None) -> Html:
    if value is None:
        return tag("td", UNKNOWN, class_="quiet")
    return tag("td", badge(value) if name == "state" else value)


def _inputs(runs: Sequence[Compared], names: Sequence[str]) -> Html:
    recorded = sum(run.inputs is not None for run in runs)
    if recorded < 2:
        return tag("p", "Inputs are not compared: they are recorded of fewer than two runs.", class_="note")
    rows = comparison.input_rows(runs, _LONGEST)
    note = f"Recorded of {recorded} of {len(runs)} runs." if recorded < len(runs) else None
    return tag(
        "div",
        _table(names, rows) if rows else tag("p", comparison.all_same(runs), class_="note"),
        tag("p", note, class_="note") if note else None,
        *[tag("p", moved, class_="note") for moved in comparison.moved_tags(runs)],
    )


def _curves(overlay: curves.Charts, names: Sequence[str]) -> Html:
    if not overlay.charts:
        return tag("p", "No scalars of these runs can be read.", class_="note")
    return sections.figures(overlay, names)


def _notes(runs: Sequence[Compared]) -> Html | None:
    items = [tag("li", tag("code", run.run), f": {note}") for run in runs for note in run.notes]
    return tag("ul", *items, class_="warnings") if items else None
