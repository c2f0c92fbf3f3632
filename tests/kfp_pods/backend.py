"""Makes the pods of one namespace's runs as the back end of Kubeflow Pipelines does."""

import hashlib
import json
import pathlib
import re
import time
import uuid
from dataclasses import dataclass, field

import yaml

import tfsteps
from tests.preflight.conftest import exists, release
from tests.support.waiting import until
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.kube.resource import PODS
from tfsteps.kube.watch import Deleted, Watch
from tfsteps.systems.kubeflow.tfjob import TFJob

JOBS = TFJob.resource
BUSYBOX = "docker.io/library/busybox:latest"
PROCESS_ONE = pathlib.Path(__file__).with_name("process_one.py").read_text()
ASLEEP = "echo up; trap 'exit 0' TERM; sleep 600 & wait"
_OF_NO_CONTROLLER = {"workflows.argoproj.io/controller-instanceid": "none"}
"""Argo's controller reconciles suspended Workflows, too: in its own time it marks a node that has none of its pods."""
_CONTAINER = {"name": "container", "value": '{"command":["python","-m","tfsteps.steps.wait.launcher"]}'}
_DRIVER = {"name": "wait-driver", "template": "a", "arguments": {"parameters": [_CONTAINER]}}
WAITS = {"name": "root", "dag": {"tasks": [_DRIVER]}}
"""A template with the driver of a `wait` task, as the back end compiles it."""
_SCRATCH = ("minio", "gcs", "s3", "tmp")


@dataclass
class Run:
    """A pipeline run: its Workflow, which Argo's controller leaves alone, and its id: not the Workflow's uid.

    Attributes:
        workflow: The object.
        tries: Whether each level of its nodes has tries, as since 2.17.
        id: Of the run.
    """

    workflow: dict
    tries: bool = False
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def name(self):
        return self.workflow["metadata"]["name"]


@dataclass
class Ended:
    """How a step's container ended: exit code, what it printed, and what was published of its outputs."""

    code: int
    output: str
    published: dict | None

    def parameter(self, name):
        return self.published["parameterValues"][name]


@dataclass
class Step:
    """A task of a run; its pod can be made again under the same name.

    Attributes:
        node: Its node in the Workflow, without the Workflow's name, the leaf `executor` and the number of the try.
        component: The component that it is a task of.
        inputs: Parameters that it is given.
        lingers: Seconds that the container goes on after the step's parent died of SIGTERM.
    """

    run: Run
    node: str
    component: str
    inputs: dict
    lingers: float = 0.9
    salt: str = field(default_factory=lambda: str(uuid.uuid4()))

    def pod_name(self, attempt):
        """Return the pod's name, the same whenever it is made again."""
        number = hashlib.sha256(f"{self.node}{attempt}".encode()).hexdigest()[:10]
        return f"{self.run.name}-system-container-impl-{number}"

    def node_name(self, attempt):
        """Return the name of its pod's node."""
        levels = [self.run.name, "root", self.node]
        path = ".".join(f"{level}(0)" if self.run.tries else level for level in levels)
        return f"{path}.executor" + (f"({attempt})" if attempt is not None else "")

    def executor_input(self):
        """Return what the driver resolved, with the defaults that the launcher fills in."""
        [spec] = self._compiled()["components"].values()
        inputs, outputs = spec.get("inputDefinitions", {}), spec["outputDefinitions"]
        defaults = {
            name: parameter["defaultValue"]
            for name, parameter in inputs.get("parameters", {}).items()
            if "defaultValue" in parameter
        }
        folder = f"mlpipeline/v2/artifacts/a-pipeline/{self.run.id}/{self.node.rpartition('.')[2]}/{self.salt}"
        artifacts = {
            name: {"artifacts": [{"name": name, "type": artifact["artifactType"], "uri": f"minio://{folder}/{name}"}]}
            for name, artifact in outputs.get("artifacts", {}).items()
        }
        run_id = {"run_id": self.run.id} if "run_id" in inputs.get("parameters", {}) else {}
        return {
            "inputs": {"parameterValues": {**defaults, **run_id, **self.inputs}},
            "outputs": {
                "parameters": {name: {"outputFile": f"/tmp/kfp/outputs/{name}"} for name in outputs["parameters"]},
                "artifacts": artifacts,
                "outputFile": f"/minio/{folder}/output_metadata.json",
            },
        }

    def command(self):
        """Return the container's command, its placeholder filled in."""
        [executor] = self._compiled()["deploymentSpec"]["executors"].values()
        container = executor["container"]
        filled = [json.dumps(self.executor_input()) if word == "{{$}}" else word for word in container["args"]]
        return [*container["command"], *filled]

    def _compiled(self):
        return yaml.safe_load(
            (pathlib.Path(tfsteps.__file__).parent / "steps" / self.component / "component.yaml").read_text()
        )


class Backend:
    """One namespace, in which everything runs as `pipeline-runner`."""

    def __init__(self, cluster, namespace, image):
        self.cluster, self.api, self.namespace, self.image = cluster, cluster.api, namespace, image
        self.deleted = {}  # name of a job -> when it was gone
        self._seen = 0
        Watch(self.api, JOBS, namespace, self._saw)

    def _saw(self, seen):
        if isinstance(seen, Deleted):
            self.deleted[seen.item["metadata"]["name"]] = time.time()

    # --- runs and their pods

    def run(self, name, *, waits=False, tries=False):
        """Make a run; `waits`: with a task `wait` in its Workflow; `tries`: as the back end 2.17 makes it."""
        templates = [{"name": "a", "container": {"image": "none"}}, *([WAITS] if waits else [])]
        retried = {"templateDefaults": {"retryStrategy": {"limit": "2", "retryPolicy": "OnError"}}} if tries else {}
        spec = {"entrypoint": "a", "templates": templates, **retried}
        run = Run({"metadata": {"name": name}}, tries)
        body = {
            "apiVersion": WORKFLOWS.api,
            "kind": WORKFLOWS.kind,
            "metadata": {"name": name, "labels": {"pipeline/runid": run.id, **_OF_NO_CONTROLLER}},
            "spec": spec,
        }
        run.workflow = self.api.create(WORKFLOWS, self.namespace, body)
        return run

    def start(self, step, attempt=None, phase="Running"):
        """Make a step's pod, once there is none of that name.

        Args:
            step: Whose.
            attempt: The number of the try of a task with `set_retry`.
            phase: Of its node, as Argo's controller knows it: Pending until it has seen the pod run.
        """
        name = step.pod_name(attempt)
        until(lambda: not exists(self.api, PODS, self.namespace, name))
        node = {"id": name, "name": step.node_name(attempt), "type": "Pod", "phase": phase}
        self.api.patch(WORKFLOWS, self.namespace, step.run.name, {"status": {"nodes": {name: node}}})
        created = self.api.create(PODS, self.namespace, self._pod(step, name, attempt))
        return created["metadata"]["name"], created["metadata"]["uid"]

    def finish(self, step, attempt=None):
        """Make a step's pod and see it to its end."""
        name, _ = self.start(step, attempt)
        return self.ended(name)

    def go_on(self, step, stem, attempt=None):
        """Make a step's pod again while the job of `stem` is HELD; once it follows that one, let both end."""
        name, _ = self.start(step, attempt)
        self.until_said(name, "[worker-0] up")
        (held,) = self.jobs(stem)
        release(self.cluster, self.namespace, held)
        return self.ended(name)

    def ended(self, pod):
        """Wait for the end of a step's container."""

        def terminated():
            statuses = self.api.get(PODS, self.namespace, pod)["status"].get("containerStatuses") or []
            main = next((status for status in statuses if status["name"] == "main"), {})
            return main.get("state", {}).get("terminated")

        code = until(terminated)["exitCode"]
        log = self.log(pod)
        match = re.search(r"^published (.*)$", log, re.MULTILINE)
        return Ended(code, log, json.loads(match[1]) if match else None)

    def log(self, pod):
        """Return what a step has printed so far."""
        return self.cluster.kubectl("logs", "-n", self.namespace, pod, "-c", "main", "--ignore-errors")

    def until_said(self, pod, text):
        """Wait until a step has printed `text`."""
        try:
            until(lambda: text in self.log(pod))
        except AssertionError as error:
            error.add_note(f"pod {pod} has printed:\n{self.log(pod)}")
            raise

    def _pod(self, step, name, attempt):
        owner = {key: step.run.workflow[key] for key in ("apiVersion", "kind")}
        owner |= {"name": step.run.name, "uid": step.run.workflow["metadata"]["uid"]}
        container = {"image": self.image, "imagePullPolicy": "IfNotPresent"}
        pod_name = {"fieldRef": {"fieldPath": "metadata.name"}}
        main = {
            **container,
            "name": "main",
            "command": ["python", "-c", PROCESS_ONE, "executor", str(step.lingers), *step.command()],
            "env": [
                {"name": "KFP_POD_NAME", "valueFrom": pod_name},
                {"name": "KFP_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                {"name": "ARGO_NODE_ID", "value": name},
                {"name": "PROCESS_ONE", "value": PROCESS_ONE},
            ],
            "volumeMounts": [{"name": item, "mountPath": f"/{item}"} for item in _SCRATCH],
        }
        idle = ["python", "-c", "import signal; signal.signal(15, lambda *_: exit()); signal.pause()"]
        meta = {
            "name": name,
            "labels": {
                "pipeline/runid": step.run.id,
                "pipelines.kubeflow.org/v2_component": "true",
                "workflows.argoproj.io/workflow": step.run.name,
                "workflows.argoproj.io/completed": "false",
            },
            "annotations": {
                "workflows.argoproj.io/node-name": step.node_name(attempt),
                "workflows.argoproj.io/node-id": name,
                "pipelines.kubeflow.org/v2_component": "true",
                "sidecar.istio.io/inject": "false",
            },
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        spec = {
            "serviceAccountName": "pipeline-runner",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "containers": [{**container, "name": "wait", "command": idle}, main],
            "volumes": [{"name": item, "emptyDir": {}} for item in _SCRATCH],
        }
        return {"metadata": meta, "spec": spec}

    # --- what happens to them

    def signal(self, pod, number=15, who="1", before=None):
        """Send a signal to process 1, or to `who` by its command line, from inside the container; return when.

        The time is told half a second ahead: with the container ends what was printed last.

        Args:
            pod: Whose container.
            number: Of the signal.
            who: Module that the process runs; 1 = process 1.
            before: Called with the time of the signal, ahead of it; None = nothing is.
        """
        program = f"""
import os, pathlib, time
def pids():
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            words = (process / "cmdline").read_bytes().split(b"\\0")
            if words[1:3] == [b"-m", {who!r}.encode()]:
                yield int(process.name)
target = [1] if {who!r} == "1" else list(pids())
assert target
when = time.time() + 0.5
print(when, flush=True)
time.sleep(when - time.time())
for pid in target:
    os.kill(pid, {number})
"""
        command = ("exec", "-n", self.namespace, pod, "-c", "main", "--", "python", "-c", program)
        with self.cluster.kubectl_process(*command) as process:
            when = float(process.stdout.readline())
            if before:
                before(when)
        return when

    def evict(self, pod):
        """Evict a pod, as a drained node does."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        self.api.request("POST", PODS.path(self.namespace, pod, "eviction"), {}, eviction)

    def remove(self, step, attempt):
        """Remove a step's pod, as a retry of the run does."""
        meta = self.api.get(PODS, self.namespace, step.pod_name(attempt))["metadata"]
        self.api.delete(PODS, self.namespace, meta["name"], meta["uid"], grace_seconds=0)

    def owners(self, name):
        """Return the ownerReferences of a job."""
        return self.api.get(JOBS, self.namespace, name)["metadata"]["ownerReferences"]

    def failed(self, name):
        """Tell whether a job has failed."""
        conditions = self.api.get(JOBS, self.namespace, name).get("status", {}).get("conditions") or []
        return any((condition["type"], condition["status"]) == ("Failed", "True") for condition in conditions)

    def jobs(self, stem):
        """Return name -> uid of the jobs that were made for `stem` and are not being deleted."""
        metadata = [item["metadata"] for item in self.api.list(JOBS, self.namespace)["items"]]
        return {
            entry["name"]: entry["uid"]
            for entry in metadata
            if entry["name"].rpartition("-")[0] == stem and "deletionTimestamp" not in entry
        }


def job(name, script, workers=1, **fields):
    """Return the inputs of a step that trains busybox replicas."""
    spec = {"image_pull_policy": "Never", "command": ["sh", "-c", script], **fields}
    return {"spec": spec, "name": name, "image": BUSYBOX, "workers": workers}
