"""The places in a value that only the run knows: what a check finds there is not certain."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsteps.spec.problems import Path

REFERENCE = "{{"
"""In the text of a reference, of both engines."""


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all texts with references, and of mappings with such keys."""
    match value:
        case str() if REFERENCE in value:
            yield path
        case Mapping():
            if any(REFERENCE in str(key) for key in value):
                yield path
            for key, item in value.items():
                yield from places(item, (*path, key))
        case list():
            for i, item in enumerate(value):
                yield from places(item, (*path, i))


def overlaps(path: Path, others: Sequence[Path]) -> bool:
    """Tell whether a path is equal to, above or below one of the others."""
    return any(path[: len(other)] == other[: len(path)] for other in others)
