"""The labels of launchers' pods: a launcher adds those of its run, and nothing takes such a pod for one of a job."""

import threading

import pytest

from tests.unit.cli.command import output_lines
from tests.unit.cli.jobs_on_cluster import kubeconfig, pod_of, tfjob
from tests.unit.janitor.api_server import FakeApiServer
from tests.unit.janitor.test_untrusted_objects import FLOWS, JOBS, OWNER, PODS, job, launcher, pod, workflow
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.engines.argo.interface import interfaces
from tfsteps.engines.argo.step import container_template
from tfsteps.kube.client import Api
from tfsteps.runs.events import ReplicaName
from tfsteps.runs.identity import MANAGED_BY, Identity
from tfsteps.systems import registry
from tfsteps.systems.launcher_pod import LauncherPod

IDENTITY = Identity(run="r", task="train(0:a)", attempt=2, pipeline="nightly")
ADDED = {
    "tfsteps.dev/run-id": "r",
    "tfsteps.dev/task": IDENTITY.labels()["tfsteps.dev/task"],
    "tfsteps.dev/attempt": "2",
    "tfsteps.dev/pipeline": "nightly",
}


class Pipeline:
    """A pipeline of which nothing is asked."""


def labelled(answer, labels=None, pipeline=Pipeline, identity=IDENTITY):
    """Label a launcher's pod; return the bodies of the requests."""
    pod = {"metadata": {"name": "step", "namespace": "ns", "uid": "p", "labels": labels or {}}}
    with serve([answer]) as server:
        host = LauncherPod.of(Api(server.access(), patience=0), pod, lambda _api, _pod: pipeline and pipeline())
        host.label(Api(server.access(), patience=0), identity)
        for thread in [thread for thread in threading.enumerate() if thread.name == "label"]:
            thread.join()
        return [(asked.method, asked.path, asked.body) for asked in server.asked]


@pytest.mark.parametrize("answer", [Answer(body={}), refusal(403, "Forbidden"), refusal(500), Answer(body=b"<html>")])
def test_a_step_labels_its_pod_once_whatever_the_answer_is(answer):
    body = {"metadata": {"uid": "p", "labels": ADDED}}
    assert labelled(answer) == [("PATCH", "/api/v1/namespaces/ns/pods/step", body)]


def test_a_label_that_is_there_is_not_sent_again():
    ((_, _, body),) = labelled(Answer(body={}), {"tfsteps.dev/run-id": "r", "other": "x"})
    assert body["metadata"]["labels"] == {key: text for key, text in ADDED.items() if key != "tfsteps.dev/run-id"}
    assert labelled(Answer(body={}), ADDED) == []


def test_the_pod_of_a_notebook_is_not_labelled():
    assert labelled(Answer(body={}), pipeline=None) == []


def test_neither_a_launcher_nor_a_template_has_the_label_that_selects_jobs():
    for interface in interfaces().values():
        labels = container_template(interface).labels
        assert labels["tfsteps.dev/run-id"] == "{{workflow.uid}}"
        assert MANAGED_BY.keys().isdisjoint(labels)
    assert MANAGED_BY.keys().isdisjoint(ADDED)


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.name)
def test_no_job_system_takes_a_launcher_for_a_replica(kind):
    meta = {"name": "wf-train-1", "namespace": "ns", "uid": "p", "labels": {**ADDED, "tfsteps.dev/step": "train"}}
    assert kind.replica(meta, [ReplicaName("worker", 0)]) is None
    selected = dict(part.split("=") for part in kind.selector("mnist-abc").split(","))
    assert not selected.items() <= meta["labels"].items()


def test_the_janitor_deletes_replicas_and_no_launcher():
    gone = {**OWNER, "uid": "gone"}
    done = job("done", owner=gone, state="Succeeded")
    job_labels = {key: text for key, text in done["metadata"]["labels"].items() if key not in MANAGED_BY}
    step = {**launcher(owner=gone), "status": {"phase": "Succeeded"}}
    step["metadata"]["labels"] |= job_labels
    server = FakeApiServer({JOBS: [done], PODS: [pod(done, "p0"), step], FLOWS: [workflow()]})
    server.sweep([kind for kind in registry.kinds() if kind.name == "kubeflow"])
    assert server.deleted == ["p0"]


def test_stop_neither_deletes_a_launcher_nor_waits_for_it(monkeypatch, tmp_path):
    running = tfjob("busy", ("Running", "True", 3))
    worker, step = pod_of(running, "worker-0", "Running"), {**launcher("ml"), "apiVersion": "v1"}
    step["metadata"]["labels"] |= {
        key: text for key, text in running["metadata"]["labels"].items() if key not in MANAGED_BY
    }
    with kubeconfig(monkeypatch, tmp_path, running, worker, step) as (server, there):
        lines = output_lines("stop", "busy", "--on", "kubernetes", "--now")
    assert lines[-1].startswith("mnist cancelled")
    deleted = [asked.path.rpartition("/")[2] for asked in server.asked if asked.method == "DELETE"]
    assert deleted == [running["metadata"]["name"], worker["metadata"]["name"]]
    assert step in there.pods
