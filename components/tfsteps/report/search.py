"""The search box above the logs, and what of the log the page has. Without a script there is only the text."""

from collections.abc import Mapping

from tfsteps.report.formats import plural, size
from tfsteps.report.html import Html, join, tag
from tfsteps.report.logs import Tail
from tfsteps.runs.log_segments import segments
from tfsteps.runs.store import Attempt


def search(attempt: Attempt, tails: Mapping[str, Tail]) -> Html | None:
    """Return the search box and a note; None if the page has no line of the log."""
    lines = sum(len(tail.lines) for tail in tails.values())
    if not lines:
        return None
    box = tag("input", type="search", id="log-search", autocomplete="off", spellcheck="false")
    return tag(
        "div",
        tag("label", "Search the lines on this page", box, hidden=True),
        tag("output", id="log-matches"),
        tag("p", _note(attempt, lines, cut=any(tail.earlier for tail in tails.values())), class_="note"),
        class_="search",
    )


def _note(attempt: Attempt, lines: int, *, cut: bool) -> Html:
    paths = [attempt.log, *[segment.path for segment in segments(attempt.log)]]
    amount = size(sum(path.stat().st_size for path in paths if path.exists()))
    start = f"The page has the last lines of each replica, {lines:,} in all." if cut else f"{plural(lines, 'line')}."
    files = [tag("code", str(attempt.log)), f" and {plural(len(paths) - 1, 'file')} beside it" if paths[1:] else None]
    return join([f"{start} The whole log, {amount}, is ", *files, "."])
