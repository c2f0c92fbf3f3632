"""The overlays of manifests/, built by kubectl and accepted by a real API server."""

import pytest

from tests.preflight.conftest import ROOT

pytestmark = pytest.mark.cluster

OVERLAYS = sorted((ROOT / "manifests/overlays").iterdir())


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_an_overlay(overlay, cluster, golden):
    built = cluster.kubectl("kustomize", overlay)
    golden(ROOT / f"tests/golden/manifests/{overlay.name}.yaml", built)
    moved = built.replace("namespace: ", "namespace: default # ")  # the overlay's own need not be there
    said = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=moved)
    assert said.count("created (server dry run)") == built.count("apiVersion:")
