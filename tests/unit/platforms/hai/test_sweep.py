"""Tasks on HAI that nobody will come back for: HAI's REST interface, and an API server that knows their Workflows."""

import json
import pathlib
import time

import pytest

from tests.hai.server import Server
from tests.unit.janitor.api_server import FakeApiServer
from tests.wire.scripted import serve
from tfsteps import spec
from tfsteps.engines.argo.workflow_objects import Workflows
from tfsteps.janitor.__main__ import main
from tfsteps.janitor.rules import Reason
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import Access
from tfsteps.platforms.hai import schema
from tfsteps.platforms.hai.client import Client
from tfsteps.platforms.hai.options import HaiOptions
from tfsteps.platforms.hai.sweep import HaiSweep
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths

OWNER = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}
NOWHERE = OutputPaths(output="out", model="model", logs="logs", base_dir=pathlib.Path())


@pytest.fixture
def platform(tmp_path):
    """Return a platform without nodes: its tasks wait in the queue."""
    server = Server(tmp_path, nodes=0)
    yield server
    server.close()


def client(server):
    token = Access(server=server.url, namespace="", tls=None, token=lambda _: "secret-token", name="HAI")
    return Client(token, patience=0)


def create(server, run, *, age=0.0, total="10m", workflow=(), step="wf.train", also=(), namespace_uid="here"):
    job = spec.from_plain(
        {"name": "job", "command": ["true"], "roles": {"worker": {}}, "deadlines": {"total": total}},
        "test",
        {"hai": HaiOptions},
    )
    body = schema.render(job, Identity(run=run, task="task"), NOWHERE, step)
    tags = [*body["options"]["tags"], f"{schema.CREATED}={time.time() - age:.3f}", *also]
    body["options"]["tags"] = tags + (schema.workflow_tags(namespace_uid, *workflow) if workflow else [])
    return client(server).create_task(body)["nb_name"]


def workflow(phase="Running", **meta):
    return {"metadata": {"name": "wf", "namespace": "ml", "uid": "w", **meta}, "spec": {}, "status": {"phase": phase}}


def step(node):
    noted = {"workflows.argoproj.io/node-name": node}
    labels = {"workflows.argoproj.io/workflow": "wf"}
    meta = {"name": "p", "uid": "p", "namespace": "ml", "annotations": noted, "labels": labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "ownerReferences": [OWNER]}}
    return {**pod, "status": {"phase": "Running"}}


def swept(platform, *, workflows=(), pods=(), namespace="", dry_run=False):
    """Make a pass; return what was said, the count, and the names of the tasks that go on."""
    lines = []
    fake = FakeApiServer(
        {
            ("argoproj.io/v1alpha1", "workflows"): list(workflows),
            ("v1", "pods"): list(pods),
            ("v1", "namespaces"): [{"metadata": {"name": "ml", "uid": "here"}}],
        }
    )
    with serve(fake.answer) as server:
        api = Api(server.access(), patience=0)
        known = Workflows(api, namespace)
        count = HaiSweep(client(platform), known, api.namespace_uid, namespace, lines.append, dry_run=dry_run).run()
    return lines, count, [task.name for task in platform.platform.unfinished()]


@pytest.mark.parametrize(("age", "stopped"), [(0, False), (650, False), (662, True)])
def test_a_task_is_stopped_a_minute_after_its_deadline(platform, age, stopped):
    name = create(platform, "r1", age=age)
    lines, count, left = swept(platform)
    assert left == ([] if stopped else [name])
    assert (count.jobs, count.due, count.failures) == (1, int(stopped), 0)
    assert len(lines) == int(stopped)
    assert all(
        f"task {name} on HAI stopped: it is queued, and its deadline `total` of 10m passed 1m0" in line
        for line in lines
    )


@pytest.mark.parametrize(("ahead", "stopped"), [(0, True), (-86400, False), (None, False)])
def test_the_age_of_a_task_is_that_by_the_clock_of_hai(platform, ahead, stopped, monkeypatch):
    name = create(platform, "r1", age=900)
    now = None if ahead is None else time.time() + ahead
    monkeypatch.setattr(Client, "server_time", lambda _: now)
    _, count, left = swept(platform)
    assert left == ([] if stopped else [name])
    assert count.deletions == ({("HAITask", Reason.DEADLINE): 1} if stopped else {})


@pytest.mark.parametrize(
    ("workflows", "pods", "why"),
    [
        ([workflow()], [], ""),
        ([workflow("Failed")], [], "its Workflow wf has ended (Failed) and wf.train has no unfinished pod"),
        ([workflow("Failed")], [step("wf.train")], ""),
        ([workflow("Failed")], [step("wf.other")], "has ended (Failed)"),
        ([], [], "its Workflow wf is gone"),
        ([workflow(uid="another")], [], "its Workflow wf is gone"),
    ],
)
def test_a_task_is_stopped_with_its_workflow(platform, workflows, pods, why):
    name = create(platform, "r1", workflow=("ml", "wf", "w"))
    lines, count, left = swept(platform, workflows=workflows, pods=pods)
    assert (left, count.due, count.failures) == (([], 1, 0) if why else ([name], 0, 0)), lines
    assert why in "".join(lines)
    assert swept(platform, workflows=workflows, pods=pods)[1].due == 0


def test_a_task_of_another_cluster_is_not_judged_by_the_workflows_of_this_one(platform):
    create(platform, "r1", workflow=("ml", "wf", "w"), namespace_uid="there")
    create(platform, "r2", workflow=("ml", "wf", "w"), namespace_uid="")  # not known, or of an older version
    late = create(platform, "r3", workflow=("ml", "wf", "w"), namespace_uid="there", age=900)
    _, count, left = swept(platform)
    assert (count.due, len(left), late in left) == (1, 2, False)


def test_what_is_not_ours_to_judge_goes_on(platform):
    other = create(platform, "other-namespace", workflow=("theirs", "wf", "w"))
    none = create(platform, "without-a-workflow")
    forged = create(platform, "forged", workflow=("ml", "wf?x=1", "w"))
    lines, count, left = swept(platform, namespace="ml")
    assert sorted(left) == sorted([other, none, forged])
    assert (count.due, count.failures) == (0, 1)
    assert f"the Workflow of task {forged} on HAI" in lines[0]
    client(platform).create_task(
        {"version": 2, "name": "by-hand", "resource": {}, "options": {}, "spec": {"entrypoint": "x"}}
    )
    assert "by-hand" in swept(platform, namespace="ml")[2]


def test_a_dry_run_stops_nothing_and_a_platform_that_is_away_is_a_failure(platform):
    name = create(platform, "r1", age=9000)
    lines, _, left = swept(platform, dry_run=True)
    assert left == [name]
    assert f"task {name} on HAI would be stopped" in lines[0]
    platform.away = True
    lines, count, _ = swept(platform)
    assert (count.failures, "cannot be listed" in lines[0]) == (1, True)


def test_ended_tasks_are_not_listed_and_paused_ones_are(platform, monkeypatch):
    for number in range(120):  # more than a page
        client(platform).stop(chain(platform, create(platform, f"ended-{number}")))
    paused = create(platform, "paused", age=9000)
    client(platform).stop(chain(platform, paused))
    client(platform).tag(chain(platform, paused), schema.PAUSED, on=True)
    create(platform, "waiting")
    listed, post = [], Client._post_once
    monkeypatch.setattr(Client, "_post_once", lambda *args: listed.append(args[1]) or post(*args))
    lines, count, _ = swept(platform)
    assert (count.jobs, count.due, count.failures) == (2, 1, 0), lines
    assert f"task {paused} on HAI stopped: it is suspended, and its deadline" in lines[0]
    assert listed.count("/query/task/list") == 3
    assert swept(platform)[1].jobs == 1, "a paused task that was stopped has ended"


def chain(platform, name):
    return next(task.chain_id for task in platform.platform.tasks if task.name == name)


def test_a_broken_record_protects_no_other_task(platform, monkeypatch):
    broken, due = create(platform, "broken"), create(platform, "due", age=9000)
    show = Server.show

    def shown(self, task):
        item = show(self, task)
        return (
            {**item, "chain_status": "suspended", "stop_code_list": ["x", "y"]} if item["nb_name"] == broken else item
        )

    monkeypatch.setattr(Server, "show", shown)
    lines, count, left = swept(platform)
    assert left == [broken]
    assert (count.due, count.failures) == (1, 1)
    assert [line for line in lines if line.startswith(f"task {broken} on HAI is not understood: ")], lines
    assert [line for line in lines if line.startswith(f"task {due} on HAI stopped")]


def test_the_program_looks_at_hai_where_it_is_given_an_address(platform, tmp_path, monkeypatch, capsys):
    name = create(platform, "r1", age=9000)
    for run in ("r2", "r3"):
        create(platform, run, workflow=("ml", "wf", "w"))
    with serve(FakeApiServer({("kubeflow.org/v1", "tfjobs"): [], ("v1", "pods"): []}).answer) as server:
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "ml"}}],
            "current-context": "c",
        }
        (tmp_path / "config").write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        for variable in ("MARSV2_SERVER", "TFSTEPS_HAI_SERVER"):
            monkeypatch.delenv(variable, raising=False)
        assert main(["--once"]) == 0
        assert "HAI" not in capsys.readouterr().out
        monkeypatch.setenv("MARSV2_SERVER", platform.url)
        monkeypatch.setenv("MARSV2_USER_TOKEN", "secret-token")
        assert main(["--once"]) == 0
        out = capsys.readouterr().out.splitlines()
        unknown = "tasks on HAI of namespace ml end by their deadlines: its uid may not be read, or it is gone"
        assert out.count(unknown) == 1, out
        assert [line for line in out if line.startswith(f"task {name} on HAI stopped")]
        assert out[-1] == "0 jobs looked at, 0 deletions due; 3 tasks on HAI looked at, 1 stops due."
        monkeypatch.delenv("MARSV2_USER_TOKEN")
        assert main(["--once"]) == 2
        assert "The janitor cannot start: there is no token for HAI" in capsys.readouterr().out
