"""A namespace of a real cluster in which steps have the permissions of overlays/kubeflow-pipelines, and no others."""

import re

import pytest

from tests.kfp_pods.backend import Backend
from tests.preflight.conftest import ACCOUNTS, cluster, image, namespace_of
from tests.support.claims import claim_of
from tests.support.overlays import built

__all__ = ["cluster", "image"]


@pytest.fixture(scope="session")
def backend(cluster, image):
    with namespace_of(cluster) as namespace:
        cluster.api.create(ACCOUNTS, namespace, {"metadata": {"name": "pipeline-runner"}})
        overlay = built(cluster, "kubeflow-pipelines", {})
        moved = overlay.replace("namespace: kubeflow\n", f"namespace: {namespace}\n")
        moved = re.sub(r"image: \S*tfsteps/launcher:.*", f"image: {image}", moved)
        moved = moved.replace("replicas: 1", "replicas: 0")  # started by the test that is about it
        cluster.kubectl("apply", "-f", "-", stdin=moved)
        yield Backend(cluster, namespace, image)


@pytest.fixture(scope="session")
def claim(backend):
    """Make the claim `training` of the namespace, and return its folder on this machine."""
    with claim_of(backend.cluster, backend.namespace) as folder:
        yield folder
