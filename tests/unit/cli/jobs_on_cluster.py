"""TFJobs and their pods as the API server shows them, and a server that has them."""

import contextlib
import datetime as dt
import re

import msgspec
import yaml

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.kubeflow.tfjob import TFJob

JOB = "{name: mnist, image: acme/mnist:1, command: [python, train.py], roles: {chief: {}, worker: {replicas: 2}}}"
START = dt.datetime(2026, 11, 21, 7, 0, tzinfo=dt.UTC)
_SELECTED = re.compile(r"([\w./-]+)=([\w.-]+)")


def at(seconds):
    """Return the time of the API so many seconds after the start."""
    return (START + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def tfjob(run, *conditions, task="mnist", attempt=0, created=0, namespace="ml", job=JOB):
    """Return a TFJob; a condition is (type, status, seconds after the start)."""
    identity = Identity(run=run, task=task, attempt=attempt)
    paths = OutputPaths(output=f"/data/{run}", model=f"/data/{run}/model", logs=f"/data/{run}/logs", base_dir=None)
    item = TFJob().render(spec.parse(job, "job", registry.options()), identity, paths, namespace).manifest
    item["metadata"] |= {"uid": f"uid-{run}-{task}-{attempt}", "creationTimestamp": at(created)}
    item["status"] = {
        "conditions": [
            {"type": kind, "status": status, "lastTransitionTime": at(when), "reason": f"TFJob{kind}", "message": kind}
            for kind, status, when in conditions
        ]
    }
    return item


def pod_of(job, replica, phase, code=None, *, started=2, ended=None, restarts=0, number=0):
    """Return a pod of a TFJob: `worker-1`, its phase, the exit code of its container if that has ended."""
    role, _, index = replica.partition("-")
    meta = job["metadata"]
    labels = {
        **meta["labels"],
        "training.kubeflow.org/job-name": meta["name"],
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": index,
    }
    state = {"waiting": {"reason": "ContainerCreating"}}
    if phase == "Running":
        state = {"running": {"startedAt": at(started)}}
    elif ended is not None:
        end = {"exitCode": code, "reason": "Error", "startedAt": at(started), "finishedAt": at(ended)}
        state = {"terminated": end}
    status = {"name": "tensorflow", "state": state, "restartCount": restarts}
    name = f"{meta['name']}-{replica}"
    return {
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "uid": f"{name}-{number}",
            "creationTimestamp": at(started - 1 + number),
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": "kubeflow.org/v1",
                    "kind": "TFJob",
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {"nodeName": "node1"},
        "status": {"phase": phase, "containerStatuses": [status]},
    }


class Cluster:
    """The objects of a server; what was deleted is gone, and its pods with it."""

    def __init__(self, *items, logs=()):
        self.jobs = [item for item in items if item.get("kind") == "TFJob"]
        self.pods = [item for item in items if item.get("kind") != "TFJob"]
        self.logs = dict(logs)
        self.events = []

    def answer(self, asked):
        kind = asked.path.rpartition("/")[2]
        match asked.method, kind:
            case "GET", "tfjobs" if asked.path.startswith("/apis/kubeflow.org/v1/"):
                return self._listed(self.jobs, asked)
            case "GET", "pods":
                return self._listed(self.pods, asked)
            case "GET", "events":
                return Answer(body={"metadata": {"resourceVersion": "1"}, "items": self.events})
            case "GET", "log":
                return Answer(body=self._log(asked))
            case "PATCH" | "DELETE", name:
                return self._change(asked, name)
        return refusal(404, "NotFound")

    def _listed(self, items, asked):
        if asked.query.get("watch"):
            return Answer(parts=["hang"])
        selector = dict(_SELECTED.findall(asked.query.get("labelSelector", "")))
        space = re.search("/namespaces/([^/]+)/", asked.path)
        matching = [
            item
            for item in items
            if selector.items() <= item["metadata"]["labels"].items()
            and (space is None or space[1] == item["metadata"]["namespace"])
        ]
        return Answer(body={"metadata": {"resourceVersion": "1"}, "items": matching})

    def _log(self, asked):
        name = asked.path.split("/")[-2]
        lines = self.logs.get(f"{name} before" if asked.query.get("previous") == "true" else name, [])
        lines = [line for line in lines if at(line[0]) >= asked.query.get("sinceTime", "")]
        tail = int(asked.query.get("tailLines", len(lines)))
        return b"".join(f"{at(second)} {text}\n".encode() for second, text in lines[len(lines) - tail :])

    def _change(self, asked, name):
        items = [item for item in self.jobs if item["metadata"]["name"] == name]
        if not items:
            return refusal(404, "NotFound")
        if asked.method == "DELETE":
            uid = items[0]["metadata"]["uid"]
            if asked.body["preconditions"]["uid"] != uid:
                return refusal(409, "Conflict")
            self.jobs.remove(items[0])
            labels = items[0]["metadata"]["labels"].items()
            self.pods = [pod for pod in self.pods if not labels <= pod["metadata"]["labels"].items()]
        return Answer(body=msgspec.to_builtins(items[0]))


@contextlib.contextmanager
def kubeconfig(monkeypatch, folder, *items, **more):
    """Serve the objects to whoever uses the present kubeconfig, in namespace `ml`; give the server and its objects."""
    there = Cluster(*items, **more)
    with serve(there.answer) as server:
        write_kubeconfig(folder / "kubeconfig", server, monkeypatch)
        yield server, there


def write_kubeconfig(file, server, monkeypatch):
    """Make a server the present cluster, in the context `test` and the namespace `ml`."""
    config = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "namespace": "ml"}}],
        "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
    }
    file.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(file))
