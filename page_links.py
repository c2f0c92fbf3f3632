"""Links that leave a page's home: README's on a package index, and the site's to files outside of docs/.

Both begin with `source-url` of pyproject.toml then; while that is empty, only their text is left. hatchling and mkdocs
load this file.
"""

import pathlib
import posixpath
import re
import tomllib
from collections.abc import Callable
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_ROOT = pathlib.Path(__file__).parent
_LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:|#)([^)\s]+)\)")


class Metadata(MetadataHookInterface):
    """What is dynamic in the package's metadata: `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add README with links that work on a package index, and the project's addresses if there are any."""
        base = self.config["source-url"]
        text = (pathlib.Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": outward(text, "", base, lambda _: True)}
        metadata["urls"] = {"Source": base, "Changelog": f"{base}CHANGELOG.md"} if base else {}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite the links of one of the site's pages that lead out of docs/; called by mkdocs."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))
    base = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["source-url"]
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")
    return outward(markdown, folder, base, lambda path: not path.startswith("docs/") and (_ROOT / path).exists())


def outward(text: str, folder: str, base: str, leaves: Callable[[str], bool]) -> str:
    """Return a page whose links to some files of the repository begin with a base, or are plain text.

    Args:
        text: The page, in Markdown.
        folder: The page's folder, from the repository's top; empty = the top itself.
        base: What these links begin with, with a slash at the end; empty = only their text is left.
        leaves: Tells which files, by their paths from the repository's top.
    """

    def link(match: re.Match[str]) -> str:
        target, _, anchor = match[2].partition("#")
        path = posixpath.normpath(posixpath.join(folder, target))
        if not leaves(path):
            return match[0]
        return f"[{match[1]}]({base}{path}{'#' * bool(anchor)}{anchor})" if base else match[1]

    return _LINK.sub(link, text)
