"""A step that runs on one cluster and launches its job on another: two API servers, of which one dies."""

import base64
import contextlib
import json
import threading

import pytest
import yaml

from tests.support.waiting import until
from tests.unit.systems.kubernetes.objects import tfjob
from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.launcher.lifecycle import launch
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.settings.find import VARIABLE
from tfsteps.steps import job_step
from tfsteps.systems import registry
from tfsteps.systems.base import Cause, LaunchError
from tfsteps.systems.kubernetes import job_cluster
from tfsteps.systems.kubernetes.cleanup.retention import HOME

WHO = Identity(run="r", task="t")
VERSION = {"resourceVersion": "1"}
OWNER = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}
POD = {
    "metadata": {
        "name": "step",
        "namespace": "ns",
        "uid": "p",
        "annotations": {"workflows.argoproj.io/node-name": "wf.fit(0)"},
        "ownerReferences": [{**OWNER, "controller": True}],
    },
    "spec": {"containers": [{"name": "main", "image": "launcher:1"}]},
}
SETTINGS = "clusters: {far: {namespace: there}}"


def plain(**fields):
    return {"name": "job", "image": "trainer:1", "command": ["true"], "roles": {"worker": {}}, **fields}


class Home:
    """The API server of the step: its pod, its Workflow, the settings, and the Secret."""

    def __init__(self, settings=SETTINGS, **secret):
        self.settings, self.secret = settings, secret
        self.workflow = {"metadata": {"name": "wf", "uid": "w", **VERSION}, "spec": {}}

    def __call__(self, asked):
        if asked.path.endswith("/configmaps/tfsteps"):
            return Answer(body={"data": {"settings.yaml": self.settings}})
        if "/secrets/" in asked.path:
            if "answer" in self.secret:
                return self.secret["answer"]
            data = {key: base64.b64encode(text.encode()).decode() for key, text in self.secret.items()}
            return Answer(body={"data": data})
        if asked.path.endswith("/pods/step"):
            return Answer(body=POD)
        if "/workflows" in asked.path and "watch" not in asked.query:
            return Answer(body={"metadata": VERSION, "items": [self.workflow]})
        if "/pods" in asked.path and "watch" not in asked.query:
            return Answer(body={"metadata": VERSION, "items": []})
        if "watch" in asked.query:
            return Answer(parts=["hang"])
        return refusal(404, "NotFound")


class Far:
    """The API server of the jobs.

    Attributes:
        jobs: The TFJobs.
        ended: Once set, the job has succeeded.
        down: While it is set, each request is cut off.
    """

    def __init__(self):
        self.jobs, self.ended, self.down = [], threading.Event(), threading.Event()

    def __call__(self, asked):
        if self.down.is_set():
            return "reset"
        if asked.path == "/apis":
            return Answer(body={"groups": [{"versions": [{"groupVersion": "kubeflow.org/v1"}]}]})
        if asked.path == "/apis/kubeflow.org/v1":
            return Answer(body={"resources": [{"name": "tfjobs"}]})
        if "selfsubjectaccessreviews" in asked.path:
            return Answer(201, {"status": {"allowed": True}})
        if "/tfjobs" in asked.path:
            return self.of_jobs(asked)
        if asked.method == "POST":
            return refusal(403, "Forbidden")
        if "watch" in asked.query:
            return Answer(parts=["hang"])
        return Answer(body={"metadata": VERSION, "items": []})

    def of_jobs(self, asked):
        if asked.method == "POST":
            meta = {**asked.body["metadata"], "uid": "u1", "namespace": "there", **VERSION}
            item = {**asked.body, "metadata": meta}
            if "dryRun" not in asked.query:
                self.jobs.append(item)
            return Answer(201, item)
        if asked.method == "DELETE":
            self.jobs.clear()
            return Answer(body={})
        if asked.method == "PATCH":
            return Answer(body=self.jobs[0])
        if "watch" in asked.query:
            return Answer(parts=self.events())
        if asked.path.endswith("/tfjobs"):
            return Answer(body={"metadata": VERSION, "items": self.jobs})
        return Answer(body=self.jobs[0]) if self.jobs else refusal(404, "NotFound", about=asked.path.split("/")[-1])

    def events(self):
        while not (self.ended.is_set() or self.down.is_set()):
            yield 0.05
        if self.down.is_set():
            yield "reset"
        self.jobs[0]["status"] = tfjob("Succeeded")["status"]
        yield {"type": "MODIFIED", "object": self.jobs[0]}
        yield "hang"


def kubeconfig(server, **cluster):
    authority = server.authority.cert_pem.bytes() if server.authority else b""
    cluster = {"certificate-authority-data": base64.b64encode(authority).decode(), **cluster} if authority else cluster
    return yaml.safe_dump(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "other"}}],
            "clusters": [{"name": "c", "cluster": {"server": server.access().server, **cluster}}],
            "users": [{"name": "u", "user": {"token": "far-t0ken"}}],
        }
    )


@pytest.fixture
def pod(monkeypatch, tmp_path):
    """Return a function that makes this process a step's pod at home, beside another cluster."""
    with contextlib.ExitStack() as stack:

        def run(home=None, far=None, **config):
            far = far or Far()
            there = stack.enter_context(serve(far, tls=True))
            home = home or Home(far=kubeconfig(there, **config))
            here = stack.enter_context(serve(home))
            found = here.access()
            monkeypatch.setattr(access, "in_cluster", lambda: True)
            monkeypatch.setattr(access, "_from_pod", lambda: found)
            return here, there

        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("POD_NAME", "step")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
        monkeypatch.delenv(VARIABLE, raising=False)
        monkeypatch.setattr("tfsteps.kube.http_client.SETTLE_SECONDS", 0.0)
        yield run


def system_for(job, name="kubeflow"):
    system = job_step.find_system(name, task=WHO, job=job)
    return system, system.with_settings(job, registry.options())


def launched(job, **observers):
    """Launch a job as the `train` step does, and return its status; in a thread, so that a test can go on."""
    system, job = system_for(job)
    results = []
    thread = threading.Thread(
        target=lambda: results.append(launch(job, WHO, system, base_dir=access.SERVICE_ACCOUNT, **observers)),
        daemon=True,
    )
    thread.start()
    return system, thread, results


def changes(server):
    return [(asked.method, asked.path) for asked in server.asked if asked.method in ("POST", "PATCH", "DELETE")]


def test_the_job_is_there_and_the_step_stays_here(pod):
    far = Far()
    here, there = pod(far=far)
    _, thread, (*_,) = launched(spec.from_plain(plain(cluster="far")))
    until(lambda: far.jobs)
    far.ended.set()
    thread.join(20)
    assert not thread.is_alive()
    (job,) = far.jobs
    assert job["metadata"]["namespace"] == "there"
    assert "ownerReferences" not in job["metadata"], "an owner on another cluster is no owner: the job would be deleted"
    home = json.loads(job["metadata"]["annotations"][HOME])
    assert (home["namespace"], home["owner"]["uid"], home["cluster"]) == ("ns", "w", here.access().cluster_id)
    assert job["metadata"]["annotations"]["tfsteps.dev/launcher"] == "wf.fit"
    assert not [path for _, path in changes(here) if "/pods/step" not in path], "nothing of the job is created here"
    assert {asked.token for asked in there.asked} == {"far-t0ken"}
    assert {asked.token for asked in here.asked} == {"t0ken"}
    assert not [asked.path for asked in there.asked if "/pods/step" in asked.path or "workflows" in asked.path]
    (label,) = [asked.body["metadata"]["labels"] for asked in here.asked if asked.method == "PATCH"]
    assert label["tfsteps.dev/cluster"] == "far"
