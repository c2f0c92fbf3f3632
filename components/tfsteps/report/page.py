"""The page of the report: all parts of it."""

import pathlib
from collections.abc import Mapping, Sequence

from tfsteps.report import curves, endings, sections
from tfsteps.report.description import Description
from tfsteps.report.document import document, save
from tfsteps.report.formats import plural, size
from tfsteps.report.graph import graph
from tfsteps.report.html import Html, join, tag
from tfsteps.report.logs import LogTail, tails
from tfsteps.report.replicas import notable, panels
from tfsteps.report.timeline import extent, timeline
from tfsteps.report.usage import usage
from tfsteps.runs.log_segments import segments
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import ROLES, Strategy


def search(attempt: AttemptFolder, tails: Mapping[str, LogTail]) -> Html | None:
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


def _note(attempt: AttemptFolder, lines: int, *, cut: bool) -> Html:
    paths = [attempt.log, *[segment.path for segment in segments(attempt.log)]]
    amount = size(sum(path.stat().st_size for path in paths if path.exists()))
    start = f"The page has the last lines of each replica, {lines:,} in all." if cut else f"{plural(lines, 'line')}."
    files = [tag("code", str(attempt.log)), f" and {plural(len(paths) - 1, 'file')} beside it" if paths[1:] else None]
    return join([f"{start} The whole log, {amount}, is ", *files, "."])


def write(attempt: AttemptFolder) -> pathlib.Path:
    """Write the report of an attempt from its records, and return its path.

    If a part is missing (the log, the event files, the job description), the report says so.

    Raises:
        OSError: There is no status.json, or the report cannot be written; an earlier report is kept then.
    """
    save(_page(attempt), attempt.report)
    return attempt.report


def _page(attempt: AttemptFolder) -> str:
    status = attempt.status()
    status.replicas.sort(key=lambda replica: (ROLES.index(replica.role), replica.index))
    job = Description.read(attempt.folder / "job.json")
    scalar_charts = curves.of_attempt(attempt, status, job.metrics)
    shown = notable(status.replicas, status.decisive_replica)
    opened = status.failure.replica if status.failure else ""
    parts = [
        ("failure", "Why it failed", sections.failure(status)),
        ("lost", "What is known", endings.lost(status)),
        ("warnings", "Warnings", sections.warnings(status, len(status.replicas) - len(shown))),
        ("graph", "Graph", graph(shown, job.strategy or _strategy(status.replicas), status.decisive_replica, opened)),
        ("timeline", "Timeline", timeline(status, shown)),
        ("curves", "Curves", sections.curves(scalar_charts, status.logs)),
        ("usage", "CPU and memory", usage(attempt)),
        ("replicas", "Replicas and logs", _replicas(attempt, status, shown, opened)),
        ("outputs", "Outputs", sections.outputs(status, attempt)),
        ("job", "Job description", job.shown()),
    ]
    present = [(anchor, title, content) for anchor, title, content in parts if content]
    body = [
        sections.headline(status, job.name),
        sections.contents([(anchor, title) for anchor, title, _ in present]),
        tag("main", *[sections.section(*part) for part in present]),
    ]
    charts = scalar_charts.charts if scalar_charts else []
    return document(sections.title(status, job.name), sections.colour(status.state), body, charts)


def _replicas(attempt: AttemptFolder, status: Status, shown: Sequence[ReplicaStatus], opened: str) -> Html:
    ends = tails(attempt.log, [replica.name for replica in shown])
    sentences = filter(None, [endings.peer_lost(status), endings.stopped(status)])
    return tag(
        "div",
        *[tag("p", sentence, class_="note") for sentence in sentences],
        search(attempt, ends),
        panels(shown, ends, extent(status).start, opened),
    )


def _strategy(replicas: list[ReplicaStatus]) -> Strategy:
    """Return the strategy that the roles suggest, if the job description cannot be read."""
    if any(replica.role == "ps" for replica in replicas):
        return "parameter_server"
    training = sum(replica.role in ("chief", "worker") for replica in replicas)
    return "single" if training <= 1 else "multi_worker_mirrored"
