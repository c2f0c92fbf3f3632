"""Which tests show a feature on a job system that no case of tests/conformance can show there: their mark `shows`."""

import ast
import functools
import pathlib
from collections.abc import Iterator

from tfsteps.systems import registry
from tfsteps.systems.features import FEATURES

_TESTS = pathlib.Path(__file__).parents[1]


@functools.cache
def shown() -> frozenset[tuple[str, str]]:
    """Return each job system and feature that the mark of a test names.

    Raises:
        ValueError: A mark names a feature or a job system that does not exist.
    """
    pairs = frozenset(pair for file in _TESTS.rglob("test_*.py") for pair in _marks(ast.parse(file.read_text())))
    if unknown := [pair for pair in pairs if pair[0] not in registry.NAMES or pair[1] not in FEATURES]:
        raise ValueError(f"no such job system or feature: {unknown}")
    return pairs


def _marks(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield what the decorators `pytest.mark.shows` of a module's tests name."""
    for function in module.body:
        for mark in getattr(function, "decorator_list", []):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.shows":
                features, *systems = (value.split() for value in map(ast.literal_eval, mark.args))
                yield from (
                    (system, feature)
                    for feature in features
                    for system in (systems[0] if systems else registry.on_kubernetes())
                )
