"""A namespace of a real cluster, in which Workflows may run, and the launcher's image."""

import pytest

from tests.preflight.conftest import cluster, image, namespace_of

__all__ = ["cluster", "image", "place"]

EXECUTOR = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: executor}
rules:
- {apiGroups: [argoproj.io], resources: [workflowtaskresults], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: executor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: executor}
subjects: [{kind: ServiceAccount, name: default}]
"""


@pytest.fixture(scope="module")
def place(cluster):
    """The namespace."""
    with namespace_of(cluster) as namespace:
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=EXECUTOR)
        yield namespace
