"""The places in a value that only the run knows: what a check finds there is not certain."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsteps.spec.problems import Path

REFERENCE = "{{"
"""In the text of a reference, of both engines."""


def places(value: Any, path: Path = (), *, mark: str = REFERENCE) -> Iterator[Path]:
    """Yield the paths of all texts that contain `mark`, and of mappings with such keys."""
    match value:
        case str() if mark in value:
            yield path
        case Mapping():
            if any(mark in str(key) for key in value):
                yield path
            for key, item in value.items():
                yield from places(item, (*path, key), mark=mark)
        case list():
            for i, item in enumerate(value):
                yield from places(item, (*path, i), mark=mark)


def overlaps(path: Path, others: Sequence[Path]) -> bool:
    """Tell whether a path is equal to, above or below one of the others."""
    return any(path[: len(other)] == other[: len(path)] for other in others)
