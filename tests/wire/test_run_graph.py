"""The graph of a run on a cluster: its Workflow in every form, launchers, Services, and what may not be read."""

import base64
import gzip
import json

import pytest

from tests.unit.cli.command import output_lines, refused
from tests.unit.cli.jobs_on_cluster import Cluster, at, pod_of, tfjob, write_kubeconfig
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.engines.argo.workflow_objects import steps
from tfsteps.runs.identity import RUN_ID
from tfsteps.systems.kubernetes.cleanup.retention import KEPT_UNTIL, LAUNCHER, REPORTED
from tfsteps.systems.kubernetes.tensorboard import manifests

K = ("--on", "kubernetes")
JOB = (
    "{name: mnist, image: acme/mnist:1, command: [python, train.py], roles: {chief: {}, worker: {replicas: 2}}, "
    "volumes: [{pvc: training, mount: /data}]}"
)
OWNER = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "nightly-x7k2p", "uid": "run"}
FIT = "nightly-x7k2p.main.fit"


def node(name, kind, phase, started=0, finished=None, **more):
    path = f"nightly-x7k2p.{name}" if name else "nightly-x7k2p"
    ends = {"finishedAt": at(finished)} if finished is not None else {}
    return {
        "id": f"nightly-x7k2p-{len(path)}{sum(path.encode())}",
        "name": path,
        "displayName": name.rpartition(".")[2] or "nightly-x7k2p",
        "type": kind,
        "phase": phase,
        "startedAt": at(started),
        **ends,
        **more,
    }


NODES = [
    node("", "DAG", "Running"),
    node("main.prepare", "Pod", "Succeeded", 1, 11, templateName="prepare", hostNodeName="node1"),
    node("main.fit", "Retry", "Running", 12),
    node("main.fit(0)", "Pod", "Failed", 12, 20, templateName="train", message="exit code 137"),
    node("main.fit(1)", "Pod", "Error", 21, 40, templateName="train", message="pod deleted"),
    node("main.report", "Pod", "Error", 30, 31, templateName="report", message="no such image"),
]


def workflow(uid="run", **status):
    status = {"phase": "Running", "startedAt": at(0), **status}
    return {"metadata": {"name": "nightly-x7k2p", "namespace": "ml", "uid": uid}, "status": status}


def by_id(nodes):
    return {item["id"]: item for item in nodes}


def launched_job(*conditions, owners=(OWNER,), **annotations):
    job = tfjob("run", *(conditions or [("Running", "True", 15)]), created=13, job=JOB)
    job["metadata"]["ownerReferences"] = list(owners)
    job["metadata"].setdefault("annotations", {}).update({LAUNCHER: FIT, **annotations})
    return job


def launcher_pod(number, phase="Running"):
    """Return a pod of the step `fit`, as Argo creates it from the template of `train`."""
    running = {"running": {"startedAt": at(22)}} if phase == "Running" else {}
    return {
        "metadata": {
            "name": f"nightly-x7k2p-train-{number}",
            "namespace": "ml",
            "uid": f"launcher-{number}",
            "creationTimestamp": at(20 + number),
            "labels": {"workflows.argoproj.io/workflow": "nightly-x7k2p", RUN_ID: "run"},
            "annotations": {"workflows.argoproj.io/node-name": f"{FIT}({number})"},
            "ownerReferences": [{**OWNER, "controller": True}],
        },
        "spec": {"nodeName": "node2", "containers": [{"name": "wait"}, {"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": running, "restartCount": 0}]},
    }


class PipelineCluster(Cluster):
    """A cluster that also has a Workflow, Services and TensorBoards; `refused` = the plurals that may not be read."""

    def __init__(self, *items, workflow=None, services=(), boards=(), refused=()):
        super().__init__(*items)
        self.more = {"workflows": [workflow] if workflow else [], "services": list(services), "jobs": list(boards)}
        self.refused = refused

    def answer(self, asked):
        plural = asked.path.rpartition("/")[2]
        if plural in self.refused:
            return refusal(403, "Forbidden", f"{plural} is forbidden: User 'ada' cannot list it")
        if asked.method == "GET" and plural in self.more:
            items = [item for item in self.more[plural] if _selected(item, asked.query.get("labelSelector", ""))]
            return Answer(body={"metadata": {"resourceVersion": "1"}, "items": items})
        return super().answer(asked)


def _selected(item, selector):
    labels = item["metadata"].get("labels") or {}
    return all(
        labels.get(key, "") == text for key, _, text in (part.partition("=") for part in selector.split(",")) if key
    )


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """Return a function that prints a run of a cluster: as text, and the graph and the notes of JSON."""

    def show(*items, command=("show", "run"), **more):
        cluster = PipelineCluster(*items, **more)
        with serve(cluster.answer) as server:
            write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
            text = output_lines(*command, *K)
            data = json.loads("".join(output_lines(*command, *K, "--output", "json")))
        return text, data["graph"], data["notes"]

    return show


def walk(root):
    yield root
    for child in root["children"]:
        yield from walk(child)


def only(root, kind):
    (item,) = [item for item in walk(root) if item["kind"] == kind]
    return item


def tree_of(text):
    return [line for line in text[1:] if line.startswith(("├", "│", "└", " "))]


def test_the_tree_has_the_workflow_its_steps_the_launcher_and_the_pods(shown):
    job = launched_job()
    replicas = [pod_of(job, name, "Running", started=15) for name in ("chief-0", "worker-0", "worker-1")]
    service = {
        "metadata": {
            "name": job["metadata"]["name"] + "-chief-0",
            "namespace": "ml",
            "ownerReferences": [{"kind": "TFJob", "uid": job["metadata"]["uid"]}],
        },
        "spec": {"ports": [{"port": 2222}]},
    }
    stranger = {"metadata": {"name": "web", "namespace": "ml"}, "spec": {"ports": [{"port": 80}]}}
    text, graph, notes = shown(
        job,
        *replicas,
        launcher_pod(0, "Failed"),
        launcher_pod(1),
        workflow=workflow(nodes=by_id(NODES)),
        services=[service, stranger],
    )
    assert notes == []
    assert text[0].split() == ["run", "run"]
    heads = [line.split(":")[0] for line in tree_of(text)[:11]]
    assert heads == [
        "└─ pipeline nightly-x7k2p",
        "   ├─ step prepare",
        "   ├─ task mnist, attempt 0",
        "   │  ├─ launcher nightly-x7k2p-train-1",
        f"   │  └─ job {job['metadata']['name']}",
        "   │     ├─ chief-0",
        "   │     ├─ worker-0",
        "   │     ├─ worker-1",
        f"   │     ├─ service {job['metadata']['name']}-chief-0",
        "   │     └─ volume volume-0",
        "   └─ step report",
    ]
    assert "   ├─ step prepare: succeeded, 10s, on node1" in text
    assert "   └─ step report: error, 1s (no such image)" in text
    launcher = only(graph, "launcher")
    assert (launcher["state"], launcher["host"], launcher["restarts"]) == ("running", "node2", 1)
    replica = next(item for item in walk(graph) if item["name"] == "worker-1")
    assert (replica["kind"], replica["place"], replica["host"]) == (
        "replica",
        f"{job['metadata']['name']}-worker-1",
        "node1",
    )
    assert only(graph, "volume")["detail"] == "claim training at /data"
    assert only(graph, "service")["detail"] == "port 2222"


def test_a_launcher_whose_pod_was_deleted_is_gone_and_the_real_pods_are_shown(shown):
    job = launched_job()
    text, graph, _ = shown(job, pod_of(job, "worker-1", "Running"), workflow=workflow(nodes=by_id(NODES)))
    (line,) = [line for line in text if "launcher" in line]
    hashed = NODES[4]["id"].rpartition("-")[2]
    assert line.partition("launcher: ")[2] == f"gone, 28s, 1 restart (its pod nightly-x7k2p-train-{hashed} was deleted)"
    states = {item["name"]: item["state"] for item in walk(graph) if item["kind"] == "replica"}
    assert states == {"chief-0": "pending", "worker-0": "pending", "worker-1": "running"}


def test_a_launcher_that_ended_is_not_gone_though_its_pod_was_collected(shown):
    nodes = [*NODES[:4], node("main.fit(1)", "Pod", "Succeeded", 21, 40, templateName="train")]
    _, graph, _ = shown(launched_job(("Succeeded", "True", 39)), workflow=workflow(nodes=by_id(nodes)))
    assert only(graph, "launcher")["state"] == "succeeded"


@pytest.mark.parametrize(
    ("answers", "note"),
    [
        ({"refused": ("workflows",)}, "Workflow nightly-x7k2p cannot be read: "),
        ({}, "Workflow nightly-x7k2p is gone, with its pods."),
        ({"workflow": workflow(uid="another")}, "Workflow nightly-x7k2p is gone, with its pods."),
        (
            {"workflow": workflow(offloadNodeStatusVersion="fnv:1")},
            "Argo keeps the steps of Workflow nightly-x7k2p in its",
        ),
        (
            {"workflow": workflow(compressedNodes="bm8=")},
            "The compressed steps of Workflow nightly-x7k2p are damaged; ",
        ),
    ],
)
def test_a_workflow_that_cannot_be_read_is_a_note(shown, answers, note):
    job = launched_job()
    text, graph, notes = shown(job, pod_of(job, "chief-0", "Running"), launcher_pod(1), **answers)
    assert [item[: len(note)] for item in notes] == [note]
    assert [line for line in text if line.startswith(f"note         {note}")]
    assert only(graph, "pipeline")["name"] == "nightly-x7k2p"
    assert only(graph, "launcher")["name"] == "nightly-x7k2p-train-1", "pods are listed by the name of the Workflow"


@pytest.mark.parametrize(("annotations", "state"), [({}, "gone"), ({REPORTED: at(40)}, "")])
def test_without_the_workflow_a_launcher_without_a_pod_is_gone_unless_it_has_reported(shown, annotations, state):
    _, graph, _ = shown(launched_job(**annotations), refused=("workflows",))
    launcher = only(graph, "launcher")
    assert (launcher["state"], launcher["message"]) == (state, f"step {FIT} has no pod")


def test_the_steps_of_a_large_workflow_are_read_from_their_compressed_form(shown):
    packed = base64.b64encode(gzip.compress(json.dumps(by_id(NODES)).encode())).decode()
    _, graph, notes = shown(launched_job(), workflow=workflow(compressedNodes=packed))
    assert [item["name"] for item in walk(graph) if item["kind"] == "step"] == ["prepare", "report"]
    assert notes == []


def test_whatever_may_not_be_listed_is_a_note_and_the_run_is_shown(shown):
    refused = ("workflows", "services", "jobs")
    text, graph, notes = shown(launched_job(), launcher_pod(1), refused=refused)
    assert sorted(note.partition(" cannot be read")[0] for note in notes) == [
        "Services",
        "TensorBoards",
        "Workflow nightly-x7k2p",
    ]
    assert text[-1].startswith("mnist ")
    assert only(graph, "launcher")["name"] == "nightly-x7k2p-train-1"


def test_a_job_that_is_kept_for_a_retry_still_has_its_workflow(shown):
    keeper = {"apiVersion": "batch/v1", "kind": "Job", "name": "mnist-kept", "uid": "keeper"}
    job = launched_job(owners=[keeper], **{KEPT_UNTIL: "2126-11-21T07:30:00+00:00"})
    _, graph, _ = shown(job, workflow=workflow(nodes=by_id(NODES), phase="Failed"))
    assert (only(graph, "pipeline")["state"], only(graph, "launcher")["state"]) == ("failed", "gone")


def test_the_tensorboard_of_the_run_is_below_the_run(shown):
    labels = {RUN_ID: "run", **manifests.COMPONENT}
    meta = {"name": "tensorboard-abc", "namespace": "ml", "labels": labels, "creationTimestamp": at(16)}
    pod = {
        "metadata": {
            **meta,
            "name": "tensorboard-abc-1",
            "uid": "tb",
            "labels": {**labels, manifests.NAME: meta["name"]},
        },
        "spec": {"nodeName": "node1", "containers": [{"name": "tensorboard"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "tensorboard", "state": {"running": {"startedAt": at(17)}}, "restartCount": 2}
            ],
        },
    }
    meta["uid"] = "board"
    service = {"metadata": {**meta, "uid": "s", "ownerReferences": [{"kind": "Job", "uid": "board"}]}}
    text, graph, _ = shown(launched_job(), pod, boards=[{"metadata": meta, "status": {}}], services=[service])
    board = only(graph, "tensorboard")
    assert (board["state"], board["place"], board["restarts"]) == ("running", "tensorboard-abc-1", 2)
    assert board in graph["children"]
    assert [child["name"] for child in board["children"]] == ["tensorboard-abc"]
    assert [item for item in walk(graph) if item["kind"] == "service"] == board["children"]
    assert [line for line in text if line.startswith("└─ TensorBoard tensorboard-abc: running, ")]


def test_the_page_of_the_pipeline_is_a_link(shown, monkeypatch):
    monkeypatch.setenv("TFSTEPS_PIPELINE_URL", "https://argo.example/workflows/{namespace}/{workflow}")
    text, graph, _ = shown(launched_job(), workflow=workflow(nodes=by_id(NODES)))
    address = "https://argo.example/workflows/ml/nightly-x7k2p"
    assert only(graph, "pipeline")["links"] == {"pipeline": address}
    assert [line for line in text if line.endswith(f"page: {address}")]


def test_a_run_of_kubeflow_pipelines_has_the_names_of_its_tasks_and_no_drivers_that_succeeded(shown):
    driver = {"templateName": "system-container-driver"}
    nodes = [
        node("root.fit-driver", "Pod", "Succeeded", 0, 1, **driver),
        node("root.score-driver", "Pod", "Failed", 30, 31, **driver, message="parameter lr not found"),
        node("root.prepare.executor", "Pod", "Succeeded", 1, 5, templateName="system-container-impl"),
        node("root.fit.executor", "Pod", "Running", 6, templateName="system-container-impl"),
    ]
    job = launched_job(**{LAUNCHER: "nightly-x7k2p.root.fit.executor"})
    _, graph, _ = shown(job, workflow=workflow(nodes=by_id(nodes)))
    steps = [(item["name"], item["state"]) for item in walk(graph) if item["kind"] == "step"]
    assert steps == [("prepare", "succeeded"), ("score-driver", "failed")]
    assert only(graph, "task")["name"] == "fit"


def test_the_names_of_pods_are_those_that_argo_gives():
    """As observed: `nightly-x7k2p-train-3521` for node `nightly-x7k2p-3521`; a Workflow of one pod names it."""
    long = "t" * 250
    single = {**node("", "Pod", "Succeeded"), "templateName": "main"}
    listed = [
        single,
        node("a", "Pod", "Running", 1, templateRef={"template": "train"}),
        node("b", "Pod", "Running", 2, templateName=long),
    ]
    places = [step.node.place for step in steps(workflow(nodes=by_id(listed)))]
    hashes = [item["id"].rpartition("-")[2] for item in listed]
    assert places[:2] == ["nightly-x7k2p", f"nightly-x7k2p-train-{hashes[1]}"]
    assert places[2] == f"nightly-x7k2p-{long}"[:242] + f"-{hashes[2]}"


def test_an_address_of_pipelines_that_is_none_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("TFSTEPS_PIPELINE_URL", "https://argo.example/{name}")
    with serve(PipelineCluster(launched_job(), workflow=workflow()).answer) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        assert "TFSTEPS_PIPELINE_URL='https://argo.example/{name}' is not usable; expected" in refused(
            "show", "run", *K
        )


def failed_launcher(run="0b9a5a3e", workflow="nightly-b4b4b", phase="Failed", step="train", **ended):
    pod = launcher_pod(0)
    labels = {"workflows.argoproj.io/workflow": workflow, RUN_ID: run, "tfsteps.dev/step": step}
    pod["metadata"] |= {"labels": labels, "name": f"{workflow}-{step}", "uid": f"{workflow}-{step}"}
    end = {"exitCode": 2, "startedAt": at(100), "finishedAt": at(103), "message": "", **ended}
    statuses = [{"name": "main", "restartCount": 0, "state": {"terminated": end} if phase == "Failed" else {}}]
    pod["status"] = {"phase": phase, "containerStatuses": statuses}
    return pod


REFUSED = "the TFJob was not created: exceeded quota"


@pytest.fixture
def pipelines(monkeypatch, tmp_path):
    """Return a function that serves pods beside one job of Workflow `nightly-x7k2p`, and prints a command."""

    def run(*pods, command=("runs",), refused=()):
        with serve(PipelineCluster(launched_job(), *pods, refused=refused).answer) as server:
            write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
            return output_lines(*command, *K)

    return run


def engine_of(lines):
    """Return the engine of the one pipeline in a list as JSON."""
    return next(entry["engine"] for entry in json.loads("\n".join(lines)) if not entry["job"])


def test_a_workflow_whose_launcher_failed_without_a_job_is_listed_and_shown(pipelines):
    pod = failed_launcher(message=f"first\n{REFUSED}\n")
    rows = [line.split()[:7] for line in pipelines(pod)]
    assert ["nightly-b4b4b", "0b9a5a3e", "nightly", "-", "-", "failed", "-"] in rows
    as_json = ("runs", "--output", "json")
    assert engine_of(pipelines(pod, command=as_json)) == "argo"
    pod["metadata"]["annotations"] = {"workflows.argoproj.io/node-name": "nightly-b4b4b.root.train.executor"}
    assert engine_of(pipelines(pod, command=as_json)) == "kfp"
    for name in ("0b9a5a3e", "0b9a", "latest", "nightly-b4b4b", "nightly"):
        lines = pipelines(pod, command=("show", name))
        assert lines[0].split() == ["run", "0b9a5a3e"]
        assert lines[-1] == f"nightly failed after 3s: {REFUSED}"


def test_a_run_that_is_not_known_may_be_spelled_like_one_without_a_job(monkeypatch, tmp_path):
    with serve(PipelineCluster(launched_job(), failed_launcher()).answer) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        assert "nearest: 0b9a5a3e" in refused("show", "0b9a5a3f", *K)


def test_a_run_of_kubeflow_pipelines_whose_job_was_deleted_is_listed_and_shown(pipelines):
    """As observed: a launcher that had a job labels its pod without a step, and `tfsteps stop` deletes the job."""
    stopped = "mnist-2w5b cancelled after 51s: `tfsteps stop` ended it. Step exit code 12: the job was cancelled."
    pod = failed_launcher(message=stopped)
    del pod["metadata"]["labels"]["tfsteps.dev/step"]
    rows = [line.split()[:7] for line in pipelines(pod)]
    assert ["nightly-b4b4b", "0b9a5a3e", "nightly", "-", "-", "failed", "-"] in rows
    assert pipelines(pod, command=("show", "0b9a5a3e"))[-1] == f"nightly failed after 3s: {stopped}"


def test_the_tree_of_a_run_without_a_job_has_its_workflow_and_the_steps(shown):
    pod = failed_launcher(run="run", workflow="nightly-x7k2p")
    text, graph, notes = shown(pod, workflow=workflow(phase="Failed", nodes=by_id(NODES)))
    heads = [line.split(":")[0] for line in tree_of(text)]
    steps_shown = ["   ├─ step prepare", "   ├─ step fit", "   └─ step report"]
    assert heads == ["└─ pipeline nightly-x7k2p", *steps_shown]
    assert only(graph, "pipeline")["state"] == "failed"
    assert notes == []
    _, graph, notes = shown(pod, refused=["workflows"])
    assert only(graph, "pipeline")["name"] == "nightly-x7k2p"
    assert "workflows is forbidden" in notes[0]


@pytest.mark.parametrize(
    "pod",
    [
        failed_launcher(run="run", workflow="nightly-x7k2p"),
        failed_launcher(run="another", workflow="nightly-x7k2p"),
        failed_launcher(phase="Running"),
        failed_launcher(step="evaluate_gate"),
    ],
    ids=["a job is there", "a job with a run id of its own", "it may still launch one", "it launches none"],
)
def test_a_workflow_is_not_listed_as_failed_if(pipelines, pod):
    assert len(pipelines(pod)) == 2


def test_a_workflow_whose_launcher_was_retried_is_not_listed_until_the_last_one_failed(pipelines):
    again = failed_launcher(phase="Running")
    again["metadata"] |= {"name": "again", "uid": "again", "creationTimestamp": at(200)}
    assert len(pipelines(failed_launcher(), again)) == 2


def test_a_workflow_with_another_launcher_that_runs_is_not_listed_as_failed(pipelines):
    other = failed_launcher(phase="Running")
    noted = {"workflows.argoproj.io/node-name": "nightly-b4b4b.main.other"}
    other["metadata"] |= {"name": "other", "uid": "other", "annotations": noted}
    assert len(pipelines(failed_launcher(), other)) == 2
