"""A schedule that the janitor keeps, on a real cluster: real Workflows, with only the permissions of the component."""

import shutil
import time

import pytest
import yaml

from tests.janitor.conftest import stage_of
from tests.preflight.conftest import ROOT
from tests.support.waiting import until
from tfsteps.engines.argo import objects, schedule_object
from tfsteps.engines.argo.rule_runs import HELD, SCHEDULE_UID
from tfsteps.engines.argo.workflow import WORKFLOWS, trigger_of
from tfsteps.runs.identity import SCHEDULED
from tfsteps.schedule import from_plain
from tfsteps.schedule.types import utc

pytestmark = pytest.mark.cluster

RULES = from_plain({"interval": "8s", "depends_on_past": True, "catch_up": True})
WORKFLOW = {
    "apiVersion": WORKFLOWS.api,
    "kind": WORKFLOWS.kind,
    "metadata": {"generateName": "ruled-"},
    "spec": {"entrypoint": "main", "templates": [{"name": "main", "suspend": {"duration": "1"}}]},  # it needs no pod
}


@pytest.fixture(scope="module")
def stage(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("schedules")
    shutil.copytree(ROOT / "manifests/janitor", folder / "janitor")
    overlay = folder / "janitor/overlay"
    overlay.mkdir()
    kustomization = {"resources": ["../namespace"], "components": ["../schedules"]}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    with stage_of(cluster, folder, overlay) as stage:
        yield stage


def runs(stage):
    """Return the Workflows of the schedule by their date."""
    items = stage.cluster.api.list(WORKFLOWS, stage.namespace, labelSelector=SCHEDULE_UID)["items"]
    return {int(item["metadata"]["name"].rpartition("-")[2]): item for item in items}


def sweep(stage):
    code, output = stage.sweep("--once", "--schedules")
    assert code == 0, output


def results(stage):
    item = stage.cluster.api.get(objects.CONFIG_MAPS, stage.namespace, "ruled")
    return {record.date: record.result for record in schedule_object.state_of(item).records}


def test_dates_run_one_after_another_once_each_and_go_with_their_schedule(stage):
    item = objects.marked(schedule_object.config_map(RULES, WORKFLOW, "ruled"))
    created = stage.cluster.api.create(objects.CONFIG_MAPS, stage.namespace, item)["metadata"]

    def two_have_succeeded():
        sweep(stage)
        return [*results(stage).values()].count("succeeded") >= 2

    until(two_have_succeeded)
    for date, run in runs(stage).items():
        assert run["metadata"]["annotations"]["workflows.argoproj.io/scheduled-time"] == utc(date)
        assert HELD not in run["metadata"]["annotations"]
        assert "suspend" not in run["spec"]
        assert trigger_of(run) == SCHEDULED
    first = min(runs(stage))
    meta = runs(stage)[first]["metadata"]
    stage.cluster.api.delete(WORKFLOWS, stage.namespace, meta["name"], meta["uid"])
    until(lambda: first not in runs(stage))
    time.sleep(1)
    sweep(stage)
    assert first not in runs(stage), "a deleted run is not sent again"
    assert results(stage)[first] == "succeeded"
    assert not [request for request in stage.requests() if request[0] == 403]
    stage.cluster.api.delete(objects.CONFIG_MAPS, stage.namespace, "ruled", created["uid"])
    until(lambda: not runs(stage))
