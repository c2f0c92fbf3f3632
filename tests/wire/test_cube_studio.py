"""The program of cube-studio's job template, from the pod of a task to the end of its TFJob."""

import pytest

from tests.unit.cli.command import tfsteps
from tests.unit.cli.jobs_on_cluster import write_kubeconfig
from tests.unit.platforms.cube_studio.test_task import ARGV, VARIABLES
from tests.unit.systems.kubernetes.objects import tfjob
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.kube import access
from tfsteps.platforms.cube_studio.__main__ import main

WORKFLOW = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "mnist-0a1b", "namespace": "ns", "uid": "w"},
    "spec": {"entrypoint": "mnist", "templates": [{"name": "tf-train", "container": {"image": "i"}}]},
    "status": {"phase": "Running", "nodes": {"n": {"id": "n", "name": "mnist-0a1b.tf-train", "type": "Pod"}}},
}
OWNER = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "name": "mnist-0a1b",
    "uid": "w",
    "controller": True,
}
POD = {
    "metadata": {
        "name": "step",
        "namespace": "ns",
        "uid": "p",
        "labels": {"run-id": VARIABLES["KFJ_RUN_ID"], "workflows.argoproj.io/workflow": "mnist-0a1b"},
        "annotations": {"workflows.argoproj.io/node-name": "mnist-0a1b.tf-train"},
        "ownerReferences": [OWNER],
    }
}
LONE = {"metadata": {**POD["metadata"], "ownerReferences": []}}
VERSION = {"resourceVersion": "1"}


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Return a function that runs the program in a pod: its exit code, the created TFJobs, all requests, and `show`."""

    def run(pod, state="Succeeded", argv=ARGV):
        jobs = []

        def script(asked):
            kind, _, name = asked.path.partition("/namespaces/ns/")[2].partition("/")
            if kind == "tfjobs" and not asked.path.startswith("/apis/kubeflow.org/v1/"):
                return Answer(404, b"404 page not found")  # the other kinds of this name
            objects = {
                "tfjobs": jobs,
                "workflows": [WORKFLOW],
                "pods": [pod] if name == "step" else [],
                "persistentvolumeclaims": [{"status": {"phase": "Bound"}}],
                "secrets": [{}],
            }.get(kind, [])
            if asked.method == "POST" and kind == "tfjobs":
                metadata = {
                    **asked.body["metadata"],
                    "uid": "u1",
                    **VERSION,
                    "creationTimestamp": "2026-11-26T00:00:00Z",
                }
                item = {**asked.body, "metadata": metadata, "status": tfjob(state)["status"]}
                if "dryRun" not in asked.query:
                    jobs.append(item)
                return Answer(201, item)
            if asked.method in ("POST", "DELETE"):
                return refusal(403, "Forbidden")
            if "watch" in asked.query:
                return Answer(parts=["hang"])
            if name:
                return Answer(body=objects[0]) if objects else refusal(404, "NotFound")
            return Answer(body={"metadata": VERSION, "items": objects})

        with serve(script) as server:
            monkeypatch.setattr(access, "find", lambda *_: server.access())
            monkeypatch.setattr(access, "in_cluster", lambda: True)
            for name, text in {**VARIABLES, "POD_NAME": "step"}.items():
                monkeypatch.setenv(name, text)
            monkeypatch.chdir(tmp_path)
            code = main([*argv, "--system", "kubeflow"])
            server.hanging.set()
            asked = list(server.asked)
            write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
            shown = tfsteps("show", VARIABLES["KFJ_RUN_ID"], "--on", "kubernetes", "-n", "ns")[1] if jobs else ""
            return code, jobs, asked, shown

    return run


def test_the_job_and_its_pods_have_the_labels_of_cube_studio(program):
    code, (job,), asked, _ = program(POD)
    assert code == 0
    (worker,) = job["spec"]["tfReplicaSpecs"].values()
    for metadata in (job["metadata"], worker["template"]["metadata"]):
        labels = metadata["labels"]
        for key, name in (("run-id", "KFJ_RUN_ID"), ("task-id", "KFJ_TASK_ID"), ("run-username", "KFJ_RUNNER")):
            assert labels[key] == VARIABLES[name]
        assert labels["tfsteps.dev/run-id"] == VARIABLES["KFJ_RUN_ID"]
        assert labels["tfsteps.dev/task"] == "tf-train"
    assert [owner["uid"] for owner in job["metadata"]["ownerReferences"]] == ["w"], "it ends with its Workflow"
    assert not [item for item in asked if item.method == "DELETE"], "nothing of another task is deleted"
    selectors = [item.query.get("labelSelector", "") for item in asked if item.path.endswith("/tfjobs")]
    assert all("tfsteps.dev/task=tf-train" in text for text in selectors if "run-id" in text), selectors


def test_show_finds_the_job_by_the_run_id_of_cube_studio(program):
    _, (job,), _, shown = program(POD)
    assert job["metadata"]["name"] in shown
    assert "succeeded" in shown


def test_the_personal_folder_is_that_of_the_creator(program):
    _, (job,), _, _ = program(POD)
    (worker,) = job["spec"]["tfReplicaSpecs"].values()
    mounts = worker["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {"mountPath": "/mnt/ada", "subPath": "ada"}.items() <= mounts[0].items()


def test_a_task_that_is_run_alone_has_a_job_without_owner(program):
    code, (job,), _, _ = program(LONE)
    assert code == 0
    assert "ownerReferences" not in job["metadata"]


def test_a_failed_job_fails_the_task(program):
    code, _, _, _ = program(POD, "Failed")
    assert code not in (0, 2)


def test_a_wrong_task_creates_nothing(program, capsys):
    code, jobs, asked, _ = program(POD, argv=["--num_worker", "two"])
    assert (code, jobs, asked) == (2, [], [])
    assert "--num_worker: 'two' is not a number of replicas" in capsys.readouterr().out
