"""The overlays of manifests/, built by kubectl and accepted by a real API server."""

import pytest
import yaml

from tests.preflight.conftest import ROOT
from tfsteps.systems import roles

pytestmark = pytest.mark.cluster

OVERLAYS = sorted((ROOT / "manifests/overlays").iterdir())


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_an_overlay(overlay, cluster, golden):
    built = cluster.kubectl("kustomize", overlay)
    golden(ROOT / f"tests/golden/manifests/{overlay.name}.yaml", built)
    moved = built.replace("namespace: ", "namespace: default # ")  # the overlay's own need not be there
    output = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=moved)
    assert output.count("created (server dry run)") == built.count("apiVersion:")


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
@pytest.mark.parametrize("system", ["kubeflow", "jobset", "trainjob", "jobs"])
def test_an_overlay_grants_what_each_live_job_system_needs(overlay, system, cluster):
    manifests = list(yaml.safe_load_all(cluster.kubectl("kustomize", overlay)))
    accounts = {
        item["roleRef"]["name"]: item["subjects"][0]["name"]
        for item in manifests
        if item["kind"] == "RoleBinding" and "janitor" not in item["metadata"]["name"]
    }
    assert len(set(accounts.values())) == 1
    granted = {
        (verb, group, plural)
        for item in manifests
        if item["kind"] == "Role" and item["metadata"]["name"] in accounts
        for rule in item["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert {(needed.verb, needed.group, needed.plural) for needed in roles.permissions(system)} <= granted
