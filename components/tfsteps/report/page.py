"""The page of the report: all parts of it."""

import pathlib
from collections.abc import Sequence

import msgspec

from tfsteps.report import curves, sections
from tfsteps.report.description import Description
from tfsteps.report.document import document, save
from tfsteps.report.formats import plural, size
from tfsteps.report.graph import graph
from tfsteps.report.html import Html, join, tag
from tfsteps.report.logs import tails
from tfsteps.report.replicas import notable, panels
from tfsteps.report.timeline import extent, timeline
from tfsteps.report.usage import usage
from tfsteps.runs.log_file import segments
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import ROLES, Strategy


def write(attempt: AttemptFolder, status: Status | None = None) -> pathlib.Path:
    """Write the report of an attempt from its records, and return its path.

    If a part is missing (the log, the event files, the job description), the report says so.

    Args:
        attempt: The attempt.
        status: Its status, which its launcher knows; None = the recorded one.

    Raises:
        OSError: There is no status.json, or the report cannot be written; an earlier report is kept then.
    """
    status = status or attempt.status()
    replicas = sorted(status.replicas, key=lambda replica: (ROLES.index(replica.role), replica.index))
    status = msgspec.structs.replace(status, replicas=replicas)
    job = Description.read(attempt.folder / "job.json")
    scalar_charts = curves.of_attempt(attempt, status, job.metrics)
    shown = notable(status.replicas, status.decisive_replica)
    opened = status.failure.replica if status.failure else ""
    parts = [
        ("failure", "Why it failed", sections.failure(status)),
        ("lost", "What is known", sections.lost(status)),
        ("warnings", "Warnings", sections.warnings(status, len(status.replicas) - len(shown))),
        ("graph", "Graph", graph(shown, job.strategy or _strategy(status.replicas), status.decisive_replica, opened)),
        ("timeline", "Timeline", timeline(status, shown)),
        ("curves", "Curves", sections.curves(scalar_charts, status.logs)),
        ("usage", "CPU and memory", usage(attempt, status.created)),
        ("replicas", "Replicas and logs", _replicas(attempt, status, shown, opened)),
        ("outputs", "Outputs", sections.outputs(status, attempt)),
        ("job", "Job description", job.shown()),
    ]
    body = [sections.headline(status, job.name), *sections.contents(parts)]
    charts = scalar_charts.charts if scalar_charts else []
    title = f"{status.state.capitalize()}: {job.name or status.job} · tfsteps"
    save(document(title, sections.colour(status.state), body, charts), attempt.report)
    return attempt.report


def _replicas(attempt: AttemptFolder, status: Status, shown: Sequence[ReplicaStatus], opened: str) -> Html:
    """Return the panels of the replicas, below a search box for their lines if the log has any."""
    ends = tails(attempt.log, [replica.name for replica in shown])
    sentences = filter(None, [sections.peer_lost(status), sections.stopped(status)])
    search = None
    if lines := sum(len(tail.lines) for tail in ends.values()):
        paths = [attempt.log, *[segment.path for segment in segments(attempt.log)]]
        amount = size(sum(path.stat().st_size for path in paths if path.exists()))
        start = f"{plural(lines, 'line')}."
        if any(tail.earlier for tail in ends.values()):
            start = f"The page has the last lines of each replica, {lines:,} in all."
        more = f" and {plural(len(paths) - 1, 'file')} beside it" if paths[1:] else None
        files = [tag("code", str(attempt.log)), more]
        box = tag("input", type="search", id="log-search", autocomplete="off", spellcheck="false")
        search = tag(
            "div",
            tag("label", "Search the lines on this page", box, hidden=True),
            tag("output", id="log-matches"),
            tag("p", join([f"{start} The whole log, {amount}, is ", *files, "."]), class_="note"),
            class_="search",
        )
    return tag(
        "div",
        *[tag("p", sentence, class_="note") for sentence in sentences],
        search,
        panels(shown, ends, extent(status).start, opened),
    )


def _strategy(replicas: list[ReplicaStatus]) -> Strategy:
    """Return the strategy that the roles suggest, if the job description cannot be read."""
    if any(replica.role == "ps" for replica in replicas):
        return "parameter_server"
    training = sum(replica.role in ("chief", "worker") for replica in replicas)
    return "single" if training <= 1 else "multi_worker_mirrored"
