"""Every example parses, says what it shows, and together they show every field."""

import pathlib

import msgspec
import pytest

from tfsteps import spec
from tfsteps.spec.schema import structs
from tfsteps.systems import registry

EXAMPLES = sorted((pathlib.Path(__file__).parents[3] / "docs" / "examples").iterdir())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_it_parses_and_runs_through_every_rule(path):
    assert spec.load(path, registry.options()).roles.items()


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.suffix == ".yaml"], ids=lambda path: path.name)
def test_the_first_line_of_an_example_describes_it(path):
    first = path.read_text().splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")
    assert len(first) <= 120


def shown(value):
    """Yield (type, field) of each field in `value` that is not at its default."""
    if isinstance(value, msgspec.Struct):
        fields = {field.name: field for field in msgspec.structs.fields(value)}
        for name, field in fields.items():
            part = getattr(value, name)
            default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
            if part != default:
                yield type(value), name
                yield from shown(part)
    elif isinstance(value, dict | tuple | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from shown(part)


def test_together_they_show_every_field():
    seen = {field for path in EXAMPLES for field in shown(spec.load(path))}
    fields = {(type_, name) for type_ in structs(spec.TrainingJob) for name in type_.__struct_fields__}
    assert {f"{type_.__name__}.{name}" for type_, name in fields - seen} == {"CodeSource.digest"}  # tfsteps sets it
