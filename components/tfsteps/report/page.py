"""The page of the report: all parts of it."""

import base64
import contextlib
import hashlib
import importlib.resources
import pathlib
from collections.abc import Sequence

import msgspec

from tfsteps.report import charts, curves, sections
from tfsteps.report.description import Description
from tfsteps.report.formats import icons
from tfsteps.report.graph import graph
from tfsteps.report.html import Html, tag
from tfsteps.report.logs import tails
from tfsteps.report.replicas import notable, panels
from tfsteps.report.timeline import extent, timeline
from tfsteps.runs.status import ReplicaStatus
from tfsteps.runs.store import Attempt, open_private
from tfsteps.spec import Strategy


def write(attempt: Attempt) -> pathlib.Path:
    """Write the report of an attempt from its records, and return its path.

    If a part is missing (the log, the event files, the job description), the report says so.

    Raises:
        OSError: There is no status.json, or the report cannot be written; an earlier report is kept then.
    """
    page = "<!DOCTYPE html>\n" + _page(attempt)
    new = attempt.report.with_suffix(".new")
    try:
        with open_private(new, "wb") as file:
            file.write(page.encode())
        new.replace(attempt.report)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    return attempt.report


def _page(attempt: Attempt) -> Html:
    status = attempt.status()
    job = Description.read(attempt.folder / "job.json")
    scalar_charts = _curves(attempt, status.logs, job.metrics)
    shown = notable(status.replicas, status.decisive_replica)
    opened = status.failure.replica if status.failure else ""
    parts = [
        ("failure", "Why it failed", sections.failure(status)),
        ("warnings", "Warnings", sections.warnings(status, len(status.replicas) - len(shown))),
        ("graph", "Graph", graph(shown, job.strategy or _strategy(status.replicas), status.decisive_replica, opened)),
        ("timeline", "Timeline", timeline(status, shown)),
        ("curves", "Curves", sections.curves(scalar_charts, status.logs)),
        (
            "replicas",
            "Replicas and logs",
            panels(shown, tails(attempt.log, [r.name for r in shown]), extent(status).start, opened),
        ),
        ("outputs", "Outputs", sections.outputs(status, attempt)),
        ("job", "Job description", job.shown()),
    ]
    present = [(anchor, title, content) for anchor, title, content in parts if content]
    data = (
        msgspec.json.encode(charts.data(scalar_charts.charts if scalar_charts else [])).decode().replace("<", "\\u003c")
    )
    script = _file("script.js")
    body = tag(
        "body",
        icons(),
        sections.headline(status, job.name),
        sections.contents([(anchor, title) for anchor, title, _ in present]),
        tag("main", *[sections.section(*part) for part in present]),
        tag("div", id="tip", role="tooltip", hidden=True),
        tag("script", Html(data), type="application/json", id="data"),
        tag("script", Html(script)),
    )
    return tag("html", _head(sections.title(status, job.name), sections.favicon(status), script), body, lang="en")


def _curves(attempt: Attempt, logs: str, metric_tags: Sequence[str]) -> curves.Charts | None:
    """Return the curves saved by the launcher, else those in the event files; None = the files cannot be read."""
    if (saved := curves.saved(attempt.curves)) is not None:
        return saved
    return curves.gather(logs, metric_tags) if logs and pathlib.Path(logs).is_dir() else None


def _head(title: str, favicon: str, script: str) -> Html:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    sources = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    policy = f"{sources}; base-uri 'none'; form-action 'none'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("link", rel="icon", href=favicon),
        tag("style", Html(_file("style.css"))),
    )


def _file(name: str) -> str:
    return importlib.resources.files("tfsteps.report").joinpath(name).read_text(encoding="utf-8")


def _strategy(replicas: list[ReplicaStatus]) -> Strategy:
    """Return the strategy that the roles suggest, if the job description cannot be read."""
    if any(replica.role == "ps" for replica in replicas):
        return "parameter_server"
    training = sum(replica.role in ("chief", "worker") for replica in replicas)
    return "single" if training <= 1 else "multi_worker_mirrored"
