"""Demos on a cluster: no command and no pass of the janitor deletes or changes an object with the mark."""

import copy

import pytest
import yaml

from tests.unit.cli.command import tfsteps
from tests.unit.cli.jobs_on_cluster import JOB, tfjob, write_kubeconfig
from tests.unit.janitor.test_sweep import swept
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_submit_argo import merged
from tfsteps import api, spec
from tfsteps.backends import waiting
from tfsteps.cli import app
from tfsteps.engines.argo import cronjob, cronworkflow, schedule_object, submit
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.runs.demo import DEMO, PICTURE, DemoError
from tfsteps.runs.identity import Identity
from tfsteps.schedule import from_plain
from tfsteps.systems import kubeflow
from tfsteps.systems.kubernetes.follow.tensorboard import start
from tfsteps.systems.kubernetes.preflight import findings
from tfsteps.systems.kubernetes.tensorboard.request import TensorBoardRequest, TensorBoardSettings

MANUAL = {"tfsteps.dev/trigger": "manual", "tfsteps.dev/pipeline": "nightly"}
HOURLY, EVERY, RULED = {"cron": "0 * * * *"}, {"interval": "6h"}, {"cron": "0 * * * *", "catch_up": True}
SPEC = {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "busybox:1.37"}}]}
WORKFLOW = {
    "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "nightly-"}, "spec": SPEC,
}  # fmt: skip
PICTURE_URL = "https://example.com/mnist.png"


def stored(item, uid=""):
    meta = {"namespace": "ml", "resourceVersion": "1", "creationTimestamp": "2026-11-21T07:00:00Z"}
    mark = {"annotations": {"tfsteps.dev/spec-hash": "another"}}
    return {**item, "metadata": {**mark, **item["metadata"], **meta, "uid": uid or f"uid-{item['metadata']['name']}"}}


def job_of_workflow():
    return tfjob("uid-once", ("Succeeded", "True", 1))


def job_owned_by(workflow):
    """Return the job of a Workflow whose run has another id, as in cube-studio."""
    item = tfjob(f"of-{workflow}", ("Running", "True", 1))
    owner = {"apiVersion": WORKFLOW["apiVersion"], "kind": "Workflow", "name": workflow, "uid": f"uid-{workflow}"}
    item["metadata"]["ownerReferences"] = [owner]
    return item


APIS = {
    "/apis": {
        "groups": [{"versions": [{"groupVersion": "argoproj.io/v1alpha1"}, {"groupVersion": "kubeflow.org/v1"}]}]
    },
    "/apis/argoproj.io/v1alpha1": {"resources": [{"name": "workflows"}]},
    "/apis/kubeflow.org/v1": {"resources": [{"name": "tfjobs"}]},
}


class Cluster:
    """The objects of a namespace by plural and name; the requests that changed one, or would have."""

    def __init__(self):
        schedules = [
            ("cronworkflows", cronworkflow.cron_workflow(from_plain(HOURLY), WORKFLOW, "hourly")),
            ("configmaps", schedule_object.config_map(from_plain(RULED), WORKFLOW, "ruled")),
            *(
                (f"{item['kind'].lower()}s", item)
                for item in cronjob.objects(from_plain(EVERY), WORKFLOW, "often", namespace="ml")
            ),
        ]
        run = {"name": "hourly-1", "labels": {"workflows.argoproj.io/cron-workflow": "hourly"}}
        run["ownerReferences"] = [{"kind": "CronWorkflow", "name": "hourly", "uid": "uid-hourly"}]
        resubmitted = {"name": "ruled-x7k2p", "labels": {"tfsteps.dev/schedule-uid": "uid-ruled"}}
        resubmitted["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "ruled", "uid": "uid-ruled"}
        ]
        items = [
            ("tfjobs", tfjob("r1", ("Running", "True", 1))),
            *(("tfjobs", job_owned_by(name)) for name in ("hourly-1", "ruled-x7k2p")),
            ("tfjobs", tfjob("paused", ("Suspended", "True", 1))),
            ("tfjobs", tfjob("run-task-train", ("Running", "True", 1), task="train")),
            ("tfjobs", job_of_workflow()),
            ("workflows", stored({**WORKFLOW, "metadata": {"name": "once", "labels": MANUAL}})),
            ("workflows", stored({**WORKFLOW, "metadata": run})),
            ("workflows", stored({**WORKFLOW, "metadata": resubmitted})),
            *((plural, stored(item)) for plural, item in schedules),
        ]
        self.objects = {(plural, item["metadata"]["name"]): copy.deepcopy(item) for plural, item in items}
        self.changes = []

    def mark(self, plural, run, value="true"):
        """Label an object, named by itself or by its run, and return it."""
        for (kind, name), item in self.objects.items():
            labels = item["metadata"].setdefault("labels", {})
            if kind == plural and run in (name, labels.get("tfsteps.dev/run-id")):
                labels[DEMO] = value
                item["metadata"].setdefault("annotations", {})[PICTURE] = PICTURE_URL
                return item
        raise AssertionError(run)

    def __call__(self, asked):
        *_, parent, name = asked.path.split("/")
        if asked.path in APIS:
            return Answer(body=APIS[asked.path])
        if "tfjobs" in (parent, name) and "/kubeflow.org/v1/" not in asked.path:
            return refusal(404, "NotFound")
        if asked.method == "GET" and parent in ("ml", "v1", "v1alpha1"):
            return Answer(body={"metadata": {"resourceVersion": "1"}, "items": [*self.selected(name, asked)]})
        if asked.method != "GET" and "dryRun" not in asked.query:
            self.changes.append(f"{asked.method} {parent}/{name}")
        if asked.method == "POST":
            metadata = asked.body["metadata"]
            if (name, metadata.get("name")) in self.objects:
                return refusal(409, "AlreadyExists", about=metadata["name"])
            filled = {"name": "made", "uid": "uid-made", "namespace": "ml", "resourceVersion": "1"}
            return Answer(201, {**asked.body, "metadata": {**filled, **metadata}})
        item = self.objects.get((parent, name))
        if item is None:
            return refusal(404, "NotFound", about=name)
        if asked.method == "DELETE":
            del self.objects[parent, name]
        if asked.method == "PATCH" and "dryRun" not in asked.query:
            item |= merged(item, asked.body)
        return Answer(body=merged(item, asked.body) if asked.method == "PATCH" else item)

    def selected(self, plural, asked):
        terms = [term.partition("=") for term in asked.query.get("labelSelector", "").split(",") if term]
        for (kind, _), item in self.objects.items():
            labels = item["metadata"].get("labels") or {}
            if kind == plural and all(key in labels and value in ("", labels[key]) for key, _, value in terms):
                yield item


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(submit, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.0)
    monkeypatch.delenv("KF_PIPELINES_ENDPOINT", raising=False)
    there = Cluster()
    with serve(there) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        there.server = server
        yield there


@pytest.fixture
def workflow(tmp_path):
    file = tmp_path / "nightly.yaml"
    file.write_text(yaml.safe_dump(WORKFLOW))
    return file


@pytest.fixture
def task(tmp_path):
    """A Workflow with a task `train`."""
    inputs = [
        {"name": "name", "value": "quick"},
        {"name": "image", "value": "acme/quick:1"},
        {"name": "workers", "value": "1"},
    ]
    reference = {"name": "tfsteps", "template": "train"}
    main = {"name": "main", "dag": {"tasks": [
        {"name": "train", "templateRef": reference, "arguments": {"parameters": inputs}},
    ]}}  # fmt: skip
    file = tmp_path / "task.yaml"
    file.write_text(
        yaml.safe_dump({**WORKFLOW, "metadata": {"name": "task"}, "spec": {"entrypoint": "main", "templates": [main]}})
    )
    return file


COMMANDS = {  # what is marked, and the command
    "clear": ("tfjobs", "r1", "clear r1 --on kubernetes --yes"),
    "clear a task": ("tfjobs", "r1", "clear r1 --task mnist --on kubernetes --yes"),
    "stop": ("tfjobs", "r1", "stop r1 --on kubernetes"),
    "pause": ("tfjobs", "r1", "pause r1 --on kubernetes"),
    "resume": ("tfjobs", "paused", "resume paused --on kubernetes"),
    "replace a run": ("workflows", "once", "submit FILE --replace"),
    "replace a run whose job is marked": ("tfjobs", "uid-once", "submit FILE --replace"),
    "update a schedule": ("cronworkflows", "hourly", "submit FILE --name hourly --every 5h --yes"),
    "delete a schedule whose run is marked": ("workflows", "hourly-1", "schedules delete hourly --yes"),
    "delete a schedule whose run's job is marked": ("tfjobs", "of-hourly-1", "schedules delete hourly --yes"),
    "delete a schedule whose resubmitted run's job is marked": (
        "tfjobs",
        "of-ruled-x7k2p",
        "schedules delete ruled --yes",
    ),
    "clear the runs of a task": ("tfjobs", "run-task-train", "task clear TASK train --on kubernetes --yes"),
    "delete a schedule with a resubmitted run": ("workflows", "ruled-x7k2p", "schedules delete ruled --yes"),
    **{
        f"{action} {plural}": (plural, name, f"schedules {action} {name} --yes")
        for action in ("pause", "resume", "run-now", "delete")
        for plural, name in (("cronworkflows", "hourly"), ("cronjobs", "often"), ("configmaps", "ruled"))
    },
}


CHANGES_NO_OBJECT_OF_OTHERS = {
    "run": "creates a job, or refuses a run id that exists",
    "attach": "follows a job as its launcher",
    "rerun": "creates another run",
    "requeue": "is for platforms, whose tasks cannot be demos",
    "change": "is for platforms, whose tasks cannot be demos",
    "tensorboard": "replaces a TensorBoard that has ended: test_a_tensorboard_that_is_a_demo_is_not_replaced",
    "rm": "removes records of this machine: tests/unit/cli/commands/test_demo.py",
    "prune": "removes records of this machine: tests/unit/cli/commands/test_demo.py",
}


READS = "check compare compile debug import init lint logs platform report role runs schema shell show tune validate"


def test_each_command_refuses_demos_or_changes_nothing():
    """A new command needs a case of COMMANDS, or the reason why it needs none."""
    covered = {line.split()[0] for _, _, line in COMMANDS.values()}
    assert {*app._COMMANDS} == covered | {*READS.split()} | CHANGES_NO_OBJECT_OF_OTHERS.keys()


def test_a_new_run_of_a_task_replaces_no_demo(cluster, task):
    cluster.mark("tfjobs", "run-task-train")
    code, _, err = tfsteps("task", "run", task, "train", "--replace", "--on", "kubernetes", "--system", "kubeflow")
    assert (code, "is a demo" in err, cluster.changes) == (2, True, []), err


def test_a_tensorboard_that_is_a_demo_is_not_replaced(cluster, monkeypatch):
    monkeypatch.setattr("tfsteps.image.REGISTRY", "docker.io")  # the image is on the nodes
    settings = TensorBoardSettings(log_dirs={"": "s3://bucket/r"}, total=1000.0)
    request = TensorBoardRequest(namespace="ml", labels={"tfsteps.dev/run-id": "r"}, settings=settings)
    board = stored({"metadata": {"name": request.name}})
    board["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    cluster.objects["jobs", request.name] = board
    cluster.mark("jobs", request.name)
    with pytest.raises(DemoError, match=f"{request.name} is a demo"):
        start(Api(cluster.server.access()), request)
    assert not [change for change in cluster.changes if not change.startswith("POST")]


@pytest.mark.parametrize("value", ["true", "True"])
@pytest.mark.parametrize("case", COMMANDS)
def test_no_command_deletes_or_changes_a_demo(cluster, workflow, task, case, value):
    plural, name, line = COMMANDS[case]
    meta = cluster.mark(plural, name, value)["metadata"]
    code, _, err = tfsteps(*[{"FILE": workflow, "TASK": task}.get(word, word) for word in line.split()])
    if value != "true":  # it is not the mark
        assert (code, bool(cluster.changes)) == (0, True), err
        return
    assert code == 2
    assert f"ml/{meta['name']} is a demo, and demos are read-only" in err
    assert f"kubectl label --namespace ml {plural}" in err
    assert f"{meta['name']} {DEMO}-`" in err
    assert not [change for change in cluster.changes if not change.startswith("POST")]
    assert "POST ml/workflows" not in cluster.changes


@pytest.mark.parametrize(("status", "path"), [(403, "/workflows"), (404, "/kubeflow.org/v1/namespaces/ml/tfjobs")])
def test_a_schedule_is_not_deleted_if_its_runs_may_be_demos(cluster, monkeypatch, status, path):
    """A kind that is served can answer 404, too: through a proxy, or while its definition is installed again."""
    ask = Cluster.__call__

    def script(self, asked):
        return refusal(status, "Refused") if asked.path.endswith(path) else ask(self, asked)

    monkeypatch.setattr(Cluster, "__call__", script)
    for name, kind in (("hourly", "CronWorkflow"), ("ruled", "ConfigMap")):
        code, _, err = tfsteps("schedules", "delete", name, "--yes")
        assert (code, cluster.changes) == (2, [])
        why = f"{kind} ml/{name} is not deleted: its runs would go with it, and whether one or its"
        assert (why if status == 403 else "error: ") in err


def test_a_demo_that_was_marked_after_the_list_is_not_cleared(cluster, monkeypatch):
    listed = copy.deepcopy([*cluster.objects.values()])
    cluster.mark("tfjobs", "r1")
    monkeypatch.setattr(cluster, "selected", lambda plural, _asked: [i for i in listed if plural == "tfjobs"][:1])
    code, _, err = tfsteps("clear", "r1", "--on", "kubernetes", "--yes")
    assert (code, cluster.changes, "is a demo" in err) == (13, [], True)


@pytest.mark.parametrize("value", ["true", "yes"])
def test_the_janitor_keeps_a_demo_and_counts_it(cluster, value):
    item = cluster.mark("tfjobs", "uid-once", value)
    item["metadata"]["annotations"]["tfsteps.dev/keep-for"] = "1"
    lines, count = swept(cluster.server)
    assert (len(lines), count.due, count.demos) == ((0, 0, 1) if value == "true" else (1, 1, 0))
    assert ("1 kept as demos" in str(count)) == (value == "true")
    assert bool(cluster.changes) == (value != "true")


@pytest.mark.parametrize("value", ["true", "yes"])
def test_a_job_gets_the_mark_of_its_launchers_pod(cluster, monkeypatch, tmp_path, value):
    pod = {"name": "step", "uid": "p", "labels": {DEMO: value}, "annotations": {PICTURE: PICTURE_URL}}
    cluster.objects["pods", "step"] = stored({"metadata": pod, "spec": {}}, "p")
    bodies, answer = [], cluster.__call__
    cluster.server.script = lambda asked: bodies.append(asked.body) or answer(asked)
    monkeypatch.setenv("POD_NAME", "step")
    monkeypatch.setattr(access, "find", lambda _context: cluster.server.access())
    monkeypatch.setattr(access, "in_cluster", lambda: True)
    monkeypatch.setattr(findings, "findings", lambda *_: [])
    system, job, identity = kubeflow.PLUGIN.system(), spec.parse(JOB, "job"), Identity(run="r9", task="t")
    system.start(job, identity, system.output_paths(job, identity, tmp_path))
    (metadata,) = [body["metadata"] for body in bodies if body and body.get("kind") == "TFJob"]
    mark = (metadata["labels"].get(DEMO), metadata["annotations"].get(PICTURE))
    assert mark == (("true", PICTURE_URL) if value == "true" else (None, None))


def test_runs_lists_demos_first(cluster):
    cluster.mark("tfjobs", "uid-once")
    code, out, err = tfsteps("runs", "--on", "kubernetes")
    header, first, second, *_ = [line.split() for line in out.splitlines()]
    assert (code, err, "DEMO" in header) == (0, "", True)
    assert ("uid-once" in first, "demo" in first, "demo" in second) == (True, True, False)


def test_a_notebook_shows_the_picture_of_a_demo(cluster):
    cluster.mark("tfjobs", "uid-once")
    listed = api.runs(on="kubernetes")
    assert [entry.demo and entry.demo.picture for entry in listed][:2] == [PICTURE_URL, None]
    page = listed._repr_html_()
    assert page.count("<img") == page.count(f'<img src="{PICTURE_URL}" alt="demo"') == 1
    assert (">Demo<" in page, ">Demo<" in listed[1:]._repr_html_()) == (True, False)


def test_the_mark_of_a_submission_is_on_the_workflow_and_on_its_pods(cluster, workflow):
    code, out, err = tfsteps("submit", workflow, "--demo", "--picture", PICTURE_URL, "--dry-run")
    assert code == 0, err
    workflow_manifest = yaml.safe_load(out)
    for meta in (workflow_manifest["metadata"], workflow_manifest["spec"]["podMetadata"]):
        assert (meta["labels"][DEMO], meta["annotations"][PICTURE]) == ("true", PICTURE_URL)
    workflow.write_text(
        yaml.safe_dump({**WORKFLOW, "metadata": workflow_manifest["metadata"]})
    )  # the file itself has the mark
    assert yaml.safe_load(tfsteps("submit", workflow, "--dry-run")[1])["spec"]["podMetadata"]["labels"][DEMO] == "true"


@pytest.mark.parametrize("scheduler", ["cronworkflow", "cronjob", "janitor"])
def test_of_a_schedule_its_objects_are_marked_and_not_its_runs(workflow, scheduler, cluster):
    code, out, err = tfsteps("submit", workflow, "--demo", "--every", "6h", "--scheduler", scheduler, "--dry-run")
    assert code == 0, err
    objects = [item for item in yaml.safe_load_all(out[out.index("apiVersion") :]) if item]
    assert {item["metadata"]["labels"].get(DEMO) for item in objects} == {"true"}
    assert out.count(DEMO) == len(objects)


def test_a_demo_is_kept_whatever_the_settings_say(cluster, workflow):
    settings = {
        "metadata": {"name": "tfsteps", "namespace": "ml"},
        "data": {"settings.yaml": "runs: {keep_failed: 7d}"},
    }
    cluster.objects["configmaps", "tfsteps"] = settings
    bodies = []
    answer = cluster.__call__
    cluster.server.script = lambda asked: bodies.append(asked.body) or answer(asked)
    for options in ((), ("--demo",)):
        assert tfsteps("submit", workflow, *options)[0] == 0
    specs = [body["spec"] for body in bodies if body and body.get("kind") == "Workflow"]
    assert ["ttlStrategy" in spec for spec in specs] == [True, True, False, False]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--picture", PICTURE_URL), "--picture is the picture of a demo"),
        (("--demo", "--picture", "http://example.com/a.png"), "begins with https:// or data:image/"),
        (("--demo", "--picture", "https://example.com/" + "a" * 9000), "at most 8192 are allowed"),
    ],
)
def test_a_picture_that_cannot_be_shown(cluster, workflow, options, says):
    code, _, err = tfsteps("submit", workflow, *options)
    assert (code, says in err, cluster.changes) == (2, True, []), err
