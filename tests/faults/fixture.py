"""The namespace that all cases share: a sibling that must not be touched, and a record of every job that was there."""

import contextlib
import dataclasses
import json
import os
import pathlib
import secrets
import threading
from collections import defaultdict

import trustme

from tests.cluster.paths import KUBECONFIG
from tests.support.waiting import until
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import Access
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource

JOBS = Resource("kubeflow.org/v1", "tfjobs", "TFJob")
NAMESPACES = Resource("v1", "namespaces", "Namespace")
IMAGE = "docker.io/library/busybox:latest"
_OURS = "app.kubernetes.io/managed-by=tfsteps"  # the launcher's own pod has the other labels
_TASK = "tfsteps.dev/task"
_SLEEP = "trap exit TERM; while true; do sleep 0.2; done"  # process 1 ends at a SIGTERM only if it asks for it


@dataclasses.dataclass
class Fixture:
    """One namespace on the real cluster.

    Attributes:
        access: How it is reached without the proxy.
        folder: For the test's own files.
        run: The run that all cases belong to, so that all are siblings of each other.
        namespace: The namespace.
        certificate: The proxies' file of key, certificate and authority.
        pod_files: The folder of what a pod's service account has.
        uids: Of the job objects that were ever there, by task.
    """

    access: Access
    folder: pathlib.Path
    run: str = dataclasses.field(default_factory=lambda: f"faults-{secrets.token_hex(3)}")
    uids: dict = dataclasses.field(default_factory=lambda: defaultdict(set))

    def __post_init__(self):
        self.namespace = f"f-{self.run}"
        self.api = Api(self.access)
        self.certificate = self._certificate()
        self.pod_files = self._pod_files()

    def jobs(self, task: str) -> list[dict]:
        """Return the job objects of a task that are there now."""
        return self.api.list(JOBS, self.namespace, labelSelector=f"{_TASK}={task}")["items"]

    def pods(self, task: str) -> list[dict]:
        """Return the pods of a task that are there and not being deleted."""
        items = self.api.list(PODS, self.namespace, labelSelector=f"{_OURS},{_TASK}={task}")["items"]
        return [item for item in items if "deletionTimestamp" not in item["metadata"]]

    def kubeconfig(self, port: int, task: str) -> pathlib.Path:
        """Write a kubeconfig that leads to a proxy."""
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": self.certificate}
        config = {
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "namespace": self.namespace}}],
            "current-context": "proxy",
        }
        file = self.folder / f"{task}.kubeconfig"
        file.write_text(json.dumps(config))
        return file

    def step(self, name: str) -> None:
        """Make a Workflow, and a pod that it owns: where a launcher believes to be."""
        workflow = {
            "apiVersion": WORKFLOWS.api,
            "kind": WORKFLOWS.kind,
            "metadata": {"name": name},
            "spec": {"suspend": True, "entrypoint": "main", "templates": [{"name": "main", "suspend": {}}]},
        }
        created = self.api.create(WORKFLOWS, self.namespace, workflow)
        owner = {
            "apiVersion": WORKFLOWS.api,
            "kind": WORKFLOWS.kind,
            "name": name,
            "uid": created["metadata"]["uid"],
            "controller": True,
        }
        container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "600"]}
        spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 60}
        node = {"workflows.argoproj.io/node-name": f"{name}.fit(0)", "workflows.argoproj.io/node-id": name}  # has tries
        meta = {"name": name, "annotations": node, "ownerReferences": [owner]}
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec}
        self.api.create(PODS, self.namespace, pod)
        until(lambda: self.api.get(PODS, self.namespace, name)["status"]["phase"] == "Running")

    def shut_down(self, workflow: str) -> None:
        """Terminate a Workflow, as a user does."""
        self.api.patch(WORKFLOWS, self.namespace, workflow, {"spec": {"shutdown": "Terminate"}})

    def evict(self, pod: str) -> None:
        """Take a pod away, as a drained node does."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        self.api.request("POST", PODS.path(self.namespace, pod, "eviction"), {}, eviction)

    def remove_pod(self, name: str) -> None:
        """Delete the pod that `step` made, without waiting for it."""
        with contextlib.suppress(ApiError):  # an evicted one is gone
            self.api.request("DELETE", PODS.path(self.namespace, name), {}, {"gracePeriodSeconds": 0})

    def remove_step(self, name: str) -> None:
        """Delete what `step` made, without waiting for the pod."""
        self.remove_pod(name)
        self.remove(WORKFLOWS, self.api.get(WORKFLOWS, self.namespace, name))

    def remove(self, resource: Resource, item: dict) -> None:
        """Delete an object."""
        self.api.delete(resource, self.namespace, item["metadata"]["name"], item["metadata"]["uid"])

    def sibling(self) -> tuple:
        """Return what tells the sibling from another one: its uid, its pods' uids and restarts."""
        (job,) = self.jobs("sibling")
        pods = [
            (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
            for pod in self.pods("sibling")
        ]
        return job["metadata"]["uid"], job["metadata"].get("deletionTimestamp"), sorted(pods)

    @contextlib.contextmanager
    def open(self):
        """Make the namespace with the sibling in it, record jobs for the length of the block, and remove it all."""
        self.api.create(NAMESPACES, "", {"metadata": {"name": self.namespace}})
        try:
            version = self.api.list(JOBS, self.namespace)["metadata"]["resourceVersion"]
            threading.Thread(target=self._record, args=[version], daemon=True).start()
            self._make_sibling()
            yield self
        finally:
            self.api.stopping.set()
            gone = Api(self.access)
            uid = gone.get(NAMESPACES, "", self.namespace)["metadata"]["uid"]
            gone.delete(NAMESPACES, "", self.namespace, uid)

    def _make_sibling(self) -> None:
        labels = {_TASK: "sibling", "tfsteps.dev/run-id": self.run, "app.kubernetes.io/managed-by": "tfsteps"}
        container = {"name": "tensorflow", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", _SLEEP]}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        worker = {"replicas": 1, "restartPolicy": "Never", "template": template}
        job = {
            "apiVersion": JOBS.api,
            "kind": JOBS.kind,
            "metadata": {"name": "sibling", "labels": labels},
            "spec": {"tfReplicaSpecs": {"Worker": worker}},
        }
        self.api.create(JOBS, self.namespace, job)
        until(lambda: any(pod["status"]["phase"] == "Running" for pod in self.pods("sibling")))

    def _record(self, version: str) -> None:
        """Keep the uid of every job that is ever there, by a watch that shares no fault with the tested one."""
        while not self.api.stopping.is_set():
            query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3000"}
            with (
                contextlib.suppress(ApiError),
                self.api.open("GET", JOBS.path(self.namespace), query, read_seconds=3300) as response,
            ):
                for line in response.lines(1 << 24):
                    item = json.loads(line)["object"]
                    version = item["metadata"]["resourceVersion"]
                    self.uids[item["metadata"].get("labels", {}).get(_TASK)].add(item["metadata"]["uid"])

    def _pod_files(self) -> pathlib.Path:
        folder = self.folder / "serviceaccount"
        folder.mkdir()
        (folder / "token").write_text("the-proxy-puts-in-its-own")
        (folder / "namespace").write_text(self.namespace)
        (folder / "ca.crt").write_text(pathlib.Path(self.certificate).read_text())
        return folder

    def _certificate(self) -> str:
        authority, file = trustme.CA(), self.folder / "proxy.pem"
        proxy = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
        file.write_bytes(proxy.bytes() + authority.cert_pem.bytes())
        return str(file)


def find() -> Access:
    """Return the cluster of KUBECONFIG, else the one that `python -m tests.cluster` starts."""
    os.environ.setdefault("KUBECONFIG", str(KUBECONFIG))
    return access.find()
