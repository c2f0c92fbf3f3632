"""A manifest is imported, and its job file rendered for the same system: the objects are equal."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.same_objects import normal, rendered
from tests.unit.imports.manifests import kinds
from tfsteps.imports.read import read_manifest


@pytest.mark.parametrize("kind", kinds)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_same_object(kind, data):
    manifest = data.draw(kinds[kind])
    assert normal(rendered(read_manifest(manifest))) == normal(manifest)
