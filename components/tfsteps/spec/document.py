"""Plain data with its positions in a text."""

from typing import Any

import msgspec

from tfsteps.spec.problems import Path, Problem


class Document(msgspec.Struct):
    """Plain data with, for each path, its line and the text of its scalar as written.

    Attributes:
        value: dict, list, str, int, float, bool or None.
        lines: Line numbers, from 1; empty for data that was not read from a text.
        texts: The scalars as written: `1e3` for 1000.0.
        problems: Problems of the text: duplicate keys, unknown tags.
        source: Its name in messages.
        origins: Other names in messages, by the path of the value that came from there: `--set env.LR`.
    """

    value: Any
    lines: dict[Path, int] = {}
    texts: dict[Path, str] = {}
    problems: list[Problem] = []
    source: str = "job"
    origins: dict[Path, str] = {}

    def line(self, path: Path) -> int | None:
        """Return the line of `path`, or of its nearest parent that has one; None if it comes from elsewhere."""
        return None if self.origin(path) else self.lines.get(self._standing(path))

    def origin(self, path: Path) -> str:
        """Return the name of what has set `path`; empty = the text."""
        parents = (path[:length] for length in range(len(path), 0, -1))
        return next((self.origins[parent] for parent in parents if parent in self.origins), "")

    def position(self, path: Path) -> int:
        """Return a number by which paths sort in the order of the text; always 0 without a text."""
        standing = self._standing(path)
        return list(self.lines).index(standing) if standing in self.lines else 0

    def _standing(self, path: Path) -> Path:
        while path and path not in self.lines:
            path = path[:-1]
        return path
