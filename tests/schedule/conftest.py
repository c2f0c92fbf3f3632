"""A namespace of a real cluster, in which Workflows may run, and the launcher's image."""

import pytest

from tests.preflight.conftest import cluster, executor, image, namespace_of

__all__ = ["cluster", "image", "place"]


@pytest.fixture(scope="module")
def place(cluster):
    """The namespace."""
    with namespace_of(cluster) as namespace:
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=executor("default"))
        yield namespace
