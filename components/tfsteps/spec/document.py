"""Plain data that remembers where it stood in a text."""

from typing import Any

import msgspec

from tfsteps.spec.problems import Path, Problem


class Document(msgspec.Struct):
    """Plain data with, for each path, its line and the text of its scalar as written.

    Attributes:
        value: dict, list, str, int, float, bool or None.
        lines: From 1; empty for data that did not come from a text.
        texts: The scalars' own text: `1e3` for 1000.0.
        problems: What is wrong with the text itself: keys given twice, tags.
        source: What the messages call it.
    """

    value: Any
    lines: dict[Path, int] = {}
    texts: dict[Path, str] = {}
    problems: list[Problem] = []
    source: str = "job"

    def line(self, path: Path) -> int | None:
        """Return the line of `path`, or of the nearest thing above it; None if there are no lines."""
        return self.lines.get(self._standing(path))

    def position(self, path: Path) -> int:
        """Return a number by which paths sort as they stand in the text; all alike if there was none."""
        return list(self.lines).index(self._standing(path)) if self.lines else 0

    def _standing(self, path: Path) -> Path:
        while path and path not in self.lines:
            path = path[:-1]
        return path
