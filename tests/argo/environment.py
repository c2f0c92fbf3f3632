"""What a test does to Workflows on a real cluster, and sees of them."""

import json
import signal
import time
from dataclasses import dataclass, field

from hera.workflows import DAG, Workflow

from tests.preflight.conftest import Cluster, release
from tests.support.waiting import LONGEST, until
from tfsteps import argo
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs.identity import RUN_ID
from tfsteps.systems.kubeflow.tfjob import TFJob

TEMPLATES = Resource("argoproj.io/v1alpha1", "workflowtemplates", "WorkflowTemplate")
CLUSTER_TEMPLATES = Resource("argoproj.io/v1alpha1", "clusterworkflowtemplates", "ClusterWorkflowTemplate")
JOBS = TFJob.resource
BUSYBOX = "docker.io/library/busybox:latest"
LONG = "echo up; trap 'exit 0' TERM; sleep 600 & wait"


def job(script):
    """Return the inputs of a job of one busybox replica."""
    image = {"image": BUSYBOX, "image_pull_policy": "Never"}
    return {"spec": {"name": "job", **image, "command": ["sh", "-c", script], "roles": {"worker": {}}}}


@dataclass
class Environment:
    """A namespace.

    Attributes:
        cluster: Where it is.
        namespace: Its name.
        service_account: The ServiceAccount of Workflows.
        image: The launcher's.
        flows: Metadata of the Workflows that were submitted, by name.
    """

    cluster: Cluster
    namespace: str
    service_account: str
    image: str
    flows: dict = field(default_factory=dict)

    def step(self, name, **settings):
        """Return one of our steps, with the image of this tree."""
        return getattr(argo, name).using(image=self.image, **settings)

    def workflow(self, name, **settings):
        """Return a Workflow whose entrypoint is `main`, to be filled."""
        return Workflow(name=name, entrypoint="main", service_account_name=self.service_account, **settings)

    def one(self, name, script="", *, on_exit=True, settings=None, inputs=None, **workflow):
        """Return a Workflow of one train step and a finalizer; `inputs` in place of those of `script`."""
        with self.workflow(name, **workflow) as flow, DAG(name="main"):
            self.step("train", **settings or {})("fit", **inputs or job(script))
        if on_exit:
            self.step("cleanup").on_exit(flow, scope="run")
        return flow

    def submit(self, flow):
        """Make a Workflow; what its lint has to say comes first."""
        assert argo.lint_messages(flow.to_yaml()) == []
        self.flows[flow.name] = self.create(WORKFLOWS, flow.to_dict())["metadata"]

    def create(self, resource, item):
        """Make any object."""
        return self.cluster.api.create(resource, self.namespace, item)

    def patch(self, name, spec):
        """Change a Workflow's spec; return when."""
        self.cluster.api.patch(WORKFLOWS, self.namespace, name, {"spec": spec})
        return time.monotonic()

    def status(self, name):
        """Return a Workflow's status; empty = it has none yet."""
        return self.cluster.api.get(WORKFLOWS, self.namespace, name).get("status") or {}

    def ended(self, name, seconds=LONGEST):
        """Return a Workflow's phase once it has ended."""
        return until(
            lambda: (phase := self.status(name).get("phase")) in {"Succeeded", "Failed", "Error"} and phase, seconds
        )

    def why(self, name):
        """Return, for a test that fails, what Argo says of each node, and each launcher of its own."""
        nodes = {key: (node["phase"], node.get("message", "")) for key, node in self.nodes(name).items()}
        return f"{nodes}\n{self.log(name)}"

    def nodes(self, name):
        """Return the nodes of a Workflow by display name."""
        return {node["displayName"]: node for node in (self.status(name).get("nodes") or {}).values()}

    def output(self, name, node, parameter):
        """Return an output parameter of a node."""
        parameters = self.nodes(name)[node].get("outputs", {}).get("parameters", [])
        return next(item.get("value", "") for item in parameters if item["name"] == parameter)

    def jobs(self, name):
        """Return the metadata of a Workflow's jobs."""
        selector = f"{RUN_ID}={self.flows[name]['uid']}"
        return [
            item["metadata"] for item in self.cluster.api.list(JOBS, self.namespace, labelSelector=selector)["items"]
        ]

    def running(self, name):
        """Return a Workflow's job once a replica of it is up and its launcher knows it."""
        (job,) = until(lambda: self.jobs(name))
        until(lambda: "] up" in self.log(name))
        return job

    def log(self, name):
        """Return the last lines of a Workflow's launchers; nothing of those that are only just up."""
        options = ("-l", f"workflows.argoproj.io/workflow={name}", "-c", "main", "--tail=200")
        try:
            return self.cluster.kubectl("logs", "-n", self.namespace, *options)
        except AssertionError:
            return ""

    def launchers(self, name):
        """Return the pods of a Workflow that have not ended."""
        pods = self.cluster.api.list(PODS, self.namespace, labelSelector=f"workflows.argoproj.io/workflow={name}")
        return [item for item in pods["items"] if item["status"].get("phase") not in {"Succeeded", "Failed"}]

    def gone(self, name, since, within):
        """Wait until a Workflow has no job, and return after how many seconds."""
        until(lambda: not self.jobs(name), within)
        return round(time.monotonic() - since, 1)

    def release(self, name):
        """Let the HELD job of a Workflow end."""
        (job,) = self.jobs(name)
        release(self.cluster, self.namespace, job["name"])

    def evict(self, pod):
        """Evict a pod; return when."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        self.cluster.api.request("POST", PODS.path(self.namespace, pod, "eviction"), {}, body)
        return time.monotonic()

    def kill(self, pod, number=signal.SIGKILL):
        """Send a signal to the launcher in a pod: it is killed, as by a node that runs out of memory, or stopped."""
        program = (
            "import os, pathlib, time\n"
            "for folder in pathlib.Path('/proc').glob('[0-9]*'):\n"
            "    words = (folder / 'cmdline').read_bytes().split(b'\\0')\n"
            "    if words[1:3] == [b'-m', b'tfsteps.steps.train.launcher']:\n"
            "        print(folder, flush=True)\n"
            "        time.sleep(0.5)\n"  # with the container ends what was printed last
            f"        os.kill(int(folder.name), {int(number)})\n"
        )
        command = ("exec", "-n", self.namespace, pod, "-c", "main", "--", "python", "-c", program)
        assert self.cluster.kubectl(*command, whatever=True), "no launcher"  # it may end with the container

    def delete(self, resource, name, **options):
        """Delete an object; return when."""
        self.cluster.api.request("DELETE", resource.path(self.namespace, name), {}, options)
        return time.monotonic()

    def exists(self, name):
        """Tell whether a Workflow is there."""
        try:
            self.cluster.api.get(WORKFLOWS, self.namespace, name)
        except ApiError as error:
            if error.missing:
                return False
            raise
        return True

    def decoded(self, name, node, parameter):
        """Return an output parameter that is JSON."""
        return json.loads(self.output(name, node, parameter))
