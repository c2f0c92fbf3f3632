"""The frame of a page: one HTML file that holds its style, script and data, and loads nothing."""

import base64
import hashlib
import importlib.resources
import pathlib
import urllib.parse
from collections.abc import Sequence

import msgspec

from tfsteps.report import charts
from tfsteps.report.curves import Chart
from tfsteps.report.formats import icons
from tfsteps.report.html import Html, tag
from tfsteps.whole_file import write_whole

_SCRIPTS = ("page.js", "charts.js", "search.js")


def document(title: str, colour: str, parts: Sequence[Html], scalar_charts: Sequence[Chart], *scripts: str) -> str:
    """Return a whole page.

    Args:
        title: The title of the page.
        colour: Of the page's icon, a dot.
        parts: The content of the body.
        scalar_charts: The charts in `parts`, in their order, for the values shown on hover.
        scripts: Names of further scripts, for this page alone.
    """
    data = msgspec.json.encode(charts.data(scalar_charts)).decode().replace("<", "\\u003c")
    script = "".join(map(_file, (*_SCRIPTS, *scripts)))
    body = tag(
        "body",
        icons(),
        *parts,
        tag("div", id="tip", role="tooltip", hidden=True),
        tag("script", Html(data), type="application/json", id="data"),
        tag("script", Html(script)),
    )
    dot = tag("circle", cx=4.5, cy=4.5, r=4, fill=colour)
    dot_url = urllib.parse.quote(tag("svg", dot, xmlns="http://www.w3.org/2000/svg", viewBox="0 0 9 9"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    sources = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    policy = f"{sources}; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("link", rel="icon", href=f"data:image/svg+xml,{dot_url}"),
        tag("style", Html(_file("style.css"))),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en")


def save(page: str, path: pathlib.Path) -> None:
    """Write a page to a file that only its owner can read. OSError if that fails; an earlier page is kept then."""
    write_whole(path, page.encode(), 0o600)


def _file(name: str) -> str:
    return importlib.resources.files("tfsteps.report").joinpath(name).read_text(encoding="utf-8")
