"""The cluster and the launcher's image, as the tests of manifests/ have them."""

from tests.preflight.conftest import cluster, image

__all__ = ["cluster", "image"]
