"""The page of all runs: a table to filter and to sort, with links to the reports of the runs."""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.report import sections
from tfsteps.report.document import document
from tfsteps.report.formats import UNKNOWN, badge, duration, moment, plural
from tfsteps.report.html import Child, Html, tag
from tfsteps.report.logs import plain
from tfsteps.runs.events import State
from tfsteps.runs.status import Status

MOST = 5_000
"""So many runs are shown: a browser stays quick."""

_METRICS = 20  # columns, unless they are asked for
_OPTIONS = 12
_LONGEST = 200  # characters of a cell
_COLOUR = "#68737f"
_NUMBER = "descending"  # the first click on a number's head: the highest first


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the page: an attempt, or a pipeline.

    Attributes:
        status: Of the job; of a pipeline, its state and times alone.
        is_job: False for a pipeline.
        seconds: How long it has run; None = not known.
        run_object: The name of the object of its run on a cluster; empty = none.
        report: Address of its report, relative to the page; empty = there is none.
        options: Options of its command lines by name, without secrets: `args --lr`.
    """

    status: Status
    is_job: bool = True
    seconds: float | None = None
    run_object: str = ""
    report: str = ""
    options: Mapping[str, Any] = {}


class _Column(msgspec.Struct, frozen=True):
    """A column: what it shows of a run, None = nothing; and by which number it is sorted, None = by its text."""

    name: str
    shown: Callable[[ListedRun], Child]
    number: Callable[[ListedRun], float | None] | None = None


def page(runs: Sequence[ListedRun], metrics: Sequence[str], now: float, where: str, notes: Sequence[str] = ()) -> str:
    """Return the page, as HTML.

    Args:
        runs: In the order in which they are shown; of more than MOST the first.
        metrics: Names of the metrics that have a column; empty = the 20 that most runs have.
        now: The current time, in seconds since the epoch.
        where: Where the runs were looked for.
        notes: Sentences about what is not shown.
    """
    shown = runs[:MOST]
    hidden = len(runs) - len(shown)
    notes = [
        *notes,
        *([f"{plural(hidden, 'further run')} not shown; `--since` and `--limit` choose."] if hidden else []),
    ]
    named = metrics or _commonest(run.status.metrics for run in shown)[:_METRICS]
    columns = [*_facts(shown), *map(_metric, named), *_option_columns(shown), *_ends(shown)]
    body = [
        _header(runs, now, where),
        tag("main", sections.section("runs", "States, metrics and reports", _runs(shown, columns, notes))),
    ]
    return document("Runs · tfsteps", _COLOUR, body, [], "runs.js")


def _header(runs: Sequence[ListedRun], now: float, where: str) -> Html:
    counts = collections.Counter(run.status.state for run in runs)
    tiles = [("Runs", len(runs)), *((state.capitalize(), counts[state]) for state in State if counts[state])]
    return tag(
        "header",
        tag("p", "tfsteps runs", class_="kind"),
        tag("h1", "Runs"),
        sections.definitions([("Where", where), ("Written", moment(now))], "about"),
        tag("ul", *[sections.tile(label, f"{count:,}", "") for label, count in tiles], class_="tiles"),
        class_="comparison",
    )


def _runs(runs: Sequence[ListedRun], columns: Sequence[_Column], notes: Sequence[str]) -> Html:
    if not runs:
        return tag("p", "There are no runs.", class_="note")
    heads = [tag("th", column.name, scope="col", data_first=_NUMBER if column.number else None) for column in columns]
    rows = [tag("tr", *_cells(run, columns)) for run in runs]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="runs")
    box = tag("input", type="search", id="run-filter", autocomplete="off", spellcheck="false")
    return tag(
        "div",
        tag(
            "div",
            tag("label", "Show runs with all of these words", box, hidden=True),
            tag("output", plural(len(runs), "run"), id="run-matches"),
            class_="search",
        ),
        tag("div", table, class_="scroll runs", tabindex=0, role="region", aria_label="Table of runs"),
        tag("p", tag("button", "Show all runs", type="button", id="run-more", hidden=True), class_="note"),
        *[tag("p", note, class_="note") for note in notes],
    )


def _cells(run: ListedRun, columns: Sequence[_Column]) -> Iterator[Html]:
    for place, column in enumerate(columns):
        shown = column.shown(run)
        number = column.number and column.number(run)
        if place == 0:
            yield tag("th", shown, scope="row")
        elif shown:
            yield tag("td", shown, data_key=None if number is None else repr(number))
        else:
            yield tag("td", UNKNOWN, data_key="", class_="quiet")


def _facts(runs: Sequence[ListedRun]) -> list[_Column]:
    """Return the columns of what every run has, without those that would be empty."""
    columns = [
        _Column(
            "Run",
            lambda run: tag("a", run.status.identity.run, href=run.report) if run.report else run.status.identity.run,
        ),
        _Column("State", lambda run: badge(run.status.state)),
        _Column("Pipeline", lambda run: run.status.identity.pipeline),
        _Column("Object", lambda run: run.run_object),
        _Column("Task", lambda run: run.status.identity.task),
        _Column("Attempt", lambda run: str(run.status.identity.attempt) if run.is_job else None),
        _Column("System", lambda run: run.status.system),
        _Column("Namespace", lambda run: run.status.namespace),
        _Column("Created", lambda run: moment(run.status.created), lambda run: run.status.created),
        _Column(
            "Duration", lambda run: None if run.seconds is None else duration(run.seconds), lambda run: run.seconds
        ),
    ]
    return _used(columns, runs)


def _metric(name: str) -> _Column:
    def value(run: ListedRun) -> float | None:
        return run.status.metrics.get(name)

    return _Column(name, lambda run: None if (shown := value(run)) is None else f"{shown:.6g}", value)


def _option_columns(runs: Sequence[ListedRun]) -> list[_Column]:
    """Return columns of the options that differ between runs."""
    columns = [_option(name) for name in _commonest(run.options for run in runs)]
    return [column for column in columns if len({column.shown(run) for run in runs} - {None}) > 1][:_OPTIONS]


def _option(name: str) -> _Column:
    return _Column(name, lambda run: _text(run.options[name]) if name in run.options else None)


def _ends(runs: Sequence[ListedRun]) -> list[_Column]:
    columns = [
        _Column("Code", lambda run: str(run.status.code or "")),
        _Column("Why", lambda run: _why(run.status)),
    ]
    return _used(columns, runs)


def _why(status: Status) -> str:
    if status.state is State.SUCCEEDED:
        return ""
    return _cut(plain(status.failure.summary if status.failure else status.message or status.reason))


def _used(columns: Sequence[_Column], runs: Sequence[ListedRun]) -> list[_Column]:
    return [column for column in columns if any(column.shown(run) for run in runs)]


def _commonest(sets: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys of all sets, those of most sets first, those of equally many in alphabetical order."""
    counts = collections.Counter(name for names in sets for name in names)
    return [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _text(value: Any) -> str:
    return _cut(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
