"""Records in a bucket outlive the Workflow and its jobs: what commands know of a run whose objects are all gone."""

import base64
import json
import os

import pytest

from tests.preflight.conftest import ROOT
from tests.support.s3 import VARIABLES, served_bucket
from tests.support.waiting import until
from tests.unit.cli.command import output_lines, tfsteps
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.kube.resource import Resource
from tfsteps.runs.store import RECORDS
from tfsteps.settings.find import CONFIG_MAP
from tfsteps.systems.kubernetes.record_settings import SECRET

pytestmark = pytest.mark.cluster

CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
SECRETS = Resource("v1", "secrets", "Secret")
ADDRESS = "s3://runs/team"


@pytest.fixture(scope="module")
def recorded(environment, tmp_path_factory):
    """Two Workflows that have ended and were deleted, in a namespace that keeps records; and the bucket."""
    with served_bucket("runs") as (bucket, endpoint):
        overlay = tmp_path_factory.mktemp("overlay")
        place = {RECORDS: ADDRESS, "AWS_ENDPOINT_URL": f"http://{endpoint}", "AWS_REGION": VARIABLES["AWS_REGION"]}
        account = {"kind": "ServiceAccount", "name": environment.service_account, "namespace": environment.namespace}
        patches = [
            {"target": {"kind": "ConfigMap"}, "patch": json.dumps([{"op": "add", "path": "/data", "value": place}])},
            {
                "target": {"kind": "RoleBinding"},
                "patch": json.dumps([{"op": "replace", "path": "/subjects/0", "value": account}]),
            },
        ]
        kustomization = {
            "namespace": environment.namespace,
            "components": [os.path.relpath(ROOT / "manifests/records", overlay)],
            "patches": patches,
        }
        (overlay / "kustomization.yaml").write_text(json.dumps(kustomization))
        environment.cluster.kubectl("apply", "-k", overlay)
        keys = {name: base64.b64encode(VARIABLES[name].encode()).decode() for name in VARIABLES if "KEY" in name}
        environment.create(SECRETS, {"metadata": {"name": SECRET}, "data": keys})
        for name, script in (("recorded-one", "echo trained"), ("recorded-two", "echo broken; exit 3")):
            environment.submit(environment.one(name, script, settings={"retries": 0}, on_exit=False))
        assert environment.ended("recorded-one") == "Succeeded", environment.why("recorded-one")
        assert environment.ended("recorded-two") == "Failed", environment.why("recorded-two")
        for name in ("recorded-one", "recorded-two"):
            environment.delete(WORKFLOWS, name)
        until(lambda: not (environment.jobs("recorded-one") or environment.jobs("recorded-two")))
        yield environment, bucket
        environment.delete(CONFIG_MAPS, CONFIG_MAP)  # other tests share the namespace


@pytest.fixture
def where(recorded, tmp_path, monkeypatch):
    """The options of the cluster, on a machine that has launched nothing."""
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    return ("--on", "kubernetes", "--namespace", recorded[0].namespace)


def run_of(environment, name):
    return environment.flows[name]["uid"]


def test_what_is_stored(recorded):
    environment, bucket = recorded
    stored = {item.key.removeprefix("team/runs/").partition("/")[0] for item in bucket.objects.all()}
    assert stored == {run_of(environment, name) for name in ("recorded-one", "recorded-two")}


def test_the_runs_are_listed_and_shown(recorded, where):
    environment, _ = recorded
    listed = json.loads("".join(output_lines("runs", *where, "--output", "json")))
    states = {item["run"]: item["state"] for item in listed}  # among those of tests beside this one
    assert states[run_of(environment, "recorded-one")] == "succeeded"
    assert states[run_of(environment, "recorded-two")] == "failed"
    shown = "\n".join(output_lines("show", run_of(environment, "recorded-two"), *where))
    assert "exit code 3" in shown
    assert "[worker-0] broken" in "\n".join(output_lines("logs", run_of(environment, "recorded-two"), *where))
    assert output_lines("report", run_of(environment, "recorded-one"), *where)[0].endswith("report.html")


def test_they_are_compared_and_run_again(recorded, where):
    environment, _ = recorded
    runs = [run_of(environment, name) for name in ("recorded-one", "recorded-two")]
    compared = json.loads("".join(output_lines("compare", *runs, *where, "--output", "json")))
    assert [run["state"] for run in compared["runs"]] == ["succeeded", "failed"]
    assert compared["differences"]["command -c"] == ["echo trained", "echo broken; exit 3"]
    code, again, heading = tfsteps("rerun", runs[0], *where, "--dry-run")
    assert (code, heading.splitlines()[0]) == (0, f"again: run {runs[0]}, without changes")
    assert "echo trained" in again


def test_the_address_alone_is_enough(recorded, where, monkeypatch):
    environment, bucket = recorded
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.meta.client.meta.endpoint_url)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    listed = json.loads("".join(output_lines("runs", "--from", ADDRESS, "--output", "json")))
    assert {item["run"] for item in listed} == {run_of(environment, f"recorded-{name}") for name in ("one", "two")}
