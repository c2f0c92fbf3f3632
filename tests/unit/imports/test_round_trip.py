"""A manifest is imported, and its job file rendered for the same system: the objects are equal."""

import contextlib
import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.same_objects import normal, rendered
from tests.unit.imports.manifests import kinds
from tfsteps.imports.read import read_manifest
from tfsteps.imports.write import job_file
from tfsteps.systems.manifest.fields import NotUnderstoodError


@pytest.mark.parametrize("kind", kinds)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_same_object(kind, data):
    manifest = data.draw(kinds[kind])
    assert normal(rendered(read_manifest(manifest))) == normal(manifest)


ODD = [[], {}, "", "x", 3, -1, True, None, [1], ["a"], [{}], {"a": 1}, [None], 1.5]


def nodes(value, path=()):
    """Yield the paths of all values in plain data."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from nodes(item, (*path, key))


@pytest.mark.parametrize("kind", kinds)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_manifest_of_any_shape_is_read_or_refused(kind, data):
    manifest = copy.deepcopy(data.draw(kinds[kind]))  # parts of it are those of the next example, too
    places = [path for path in nodes(manifest) if path and path[0] not in ("apiVersion", "kind")]
    *parents, last = data.draw(st.sampled_from(places))
    inside = manifest
    for part in parents:
        inside = inside[part]
    inside[last] = data.draw(st.sampled_from(ODD))
    with contextlib.suppress(NotUnderstoodError):
        assert job_file(read_manifest(manifest))
