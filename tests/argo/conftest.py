"""A namespace of a real cluster whose Workflows have the permissions of manifests/ and those that Argo needs."""

import pytest

from tests.argo.environment import Environment
from tests.preflight.conftest import ACCOUNTS, cluster, executor, image, namespace_of
from tests.support.overlays import built

__all__ = ["cluster", "image"]

ACCOUNT = "argo-workflow"


@pytest.fixture(scope="session")
def environment(cluster, image):
    with namespace_of(cluster) as namespace:
        yield made_environment(cluster, namespace, image)


def made_environment(cluster, namespace, image):
    """Return a namespace with a ServiceAccount, which may do what `overlays/argo` says, its comments included."""
    cluster.api.create(ACCOUNTS, namespace, {"metadata": {"name": ACCOUNT}})
    overlay = built(cluster, "argo", {})
    cluster.kubectl("apply", "-f", "-", stdin=overlay.replace("namespace: argo\n", f"namespace: {namespace}\n"))
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=executor(ACCOUNT))
    return Environment(cluster, namespace, ACCOUNT, image)
