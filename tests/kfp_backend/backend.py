"""A Kubeflow Pipelines back end, and what a test sees of the runs on it and does to their pods."""

import pathlib
import tempfile
import time

import kfp
from kfp import compiler

from tests.preflight.conftest import Cluster
from tfsteps.engines.argo.workflow import WORKFLOWS, step_of
from tfsteps.kube.resource import PODS
from tfsteps.runs.identity import RUN_ID
from tfsteps.systems.kubeflow.tfjob import TFJob

JOBS = TFJob.resource
ENDED = {"SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"}
_POLL_SECONDS = 0.2
_RUN_SECONDS = 1200.0


class Backend:
    """The back end that KF_PIPELINES_ENDPOINT names, on the cluster of KUBECONFIG.

    Attributes:
        namespace: Where runs are.
        images: What stands in a compiled pipeline, and the image on the node that takes its place.
    """

    def __init__(self, cluster: Cluster, namespace: str, images: dict[str, str]) -> None:
        self.cluster, self.api, self.namespace, self.images = cluster, cluster.api, namespace, images
        self.client = kfp.Client()

    def start(self, pipeline, name: str, inputs=None) -> str:
        """Start a run and return its id.

        Args:
            pipeline: A pipeline function, or the path of a compiled one.
            name: Of the run.
            inputs: Its arguments; those left out have their defaults.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "pipeline.yaml")
            if isinstance(pipeline, pathlib.Path):
                text = pipeline.read_text()
            else:
                compiler.Compiler().compile(pipeline, str(file))
                text = file.read_text()
            for ours, there in self.images.items():
                text = text.replace(ours, there)
            file.write_text(text)
            created = self.client.create_run_from_pipeline_package(
                str(file), arguments=inputs or {}, run_name=name, enable_caching=False
            )
        return created.run_id

    def state(self, run: str) -> str:
        return self.client.get_run(run).state

    def ended(self, run: str) -> str:
        """Return a run's state once it has ended."""
        return self.until(lambda: (state := self.state(run)) in ENDED and state, 1.0)

    def terminate(self, run: str) -> None:
        self.client.terminate_run(run)

    def retry(self, run: str) -> None:
        """Do what the button *Retry* does; return once the run goes on."""
        self.client._run_api.run_service_retry_run(run_id=run)
        self.until(lambda: self.state(run) not in ENDED, 1.0)

    def until(self, what, pause: float = _POLL_SECONDS):
        """Wait until `what()` is true and return it."""
        end = time.monotonic() + _RUN_SECONDS
        while not (value := what()):
            assert time.monotonic() < end, f"it did not happen within {_RUN_SECONDS:.0f} s"
            time.sleep(pause)
        return value

    # --- what a run has on the cluster

    def workflow(self, run: str):
        """Return the Workflow of a run."""
        return self.api.list(WORKFLOWS, self.namespace, labelSelector=f"pipeline/runid={run}")["items"][0]

    def node(self, run: str, pod: str):
        """Return the node of a pod as Argo's controller knows it; empty = not yet."""
        nodes = self.workflow(run).get("status", {}).get("nodes", {}).values()
        name = self.api.get(PODS, self.namespace, pod)["metadata"]["annotations"]["workflows.argoproj.io/node-name"]
        return next((item for item in nodes if item["name"] == name), {})

    def jobs(self, run: str):
        """Return the jobs of a run that are there, by name."""
        items = self.api.list(JOBS, self.namespace, labelSelector=f"{RUN_ID}={run}")["items"]
        return {item["metadata"]["name"]: item for item in items}

    def running(self, run: str):
        """Return what of a run's jobs and replicas has not ended, as text; empty = nothing."""
        pods = self.api.list(
            PODS, self.namespace, labelSelector=f"app.kubernetes.io/managed-by=tfsteps,{RUN_ID}={run}"
        )["items"]
        going = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") in {"Pending", "Running"}]
        return ", ".join([*(name for name, job in self.jobs(run).items() if phase(job) == "goes on"), *going])

    def launchers(self, run: str):
        """Return the names of the pods in which a step of a run follows a replica that is up."""
        pods = self.api.list(PODS, self.namespace, labelSelector=f"pipeline/runid={run}")["items"]
        running = [item["metadata"]["name"] for item in pods if item["status"].get("phase") == "Running"]
        return [item for item in running if "[worker-0] up" in self.log(item)]

    def step(self, pod: str) -> str:
        """Return the name of the node that a pod is a try of."""
        return step_of(self.api.get(PODS, self.namespace, pod))

    def log(self, pod: str) -> str:
        """Return what a step has printed; empty = nothing yet."""
        return self.cluster.kubectl("logs", "-n", self.namespace, pod, "-c", "main", whatever=True)

    # --- what happens to a pod

    def delete(self, pod: str) -> None:
        self.api.request("DELETE", PODS.path(self.namespace, pod))

    def evict(self, pod: str) -> None:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        self.api.request("POST", PODS.path(self.namespace, pod, "eviction"), {}, eviction)

    def drain(self, pod: str, run: str) -> None:
        """Drain the pod's node of the pods of a run, and let it take pods again."""
        node = self.api.get(PODS, self.namespace, pod)["spec"]["nodeName"]
        chosen = (f"--pod-selector=pipeline/runid={run}", "--force", "--ignore-daemonsets", "--delete-emptydir-data")
        try:
            self.cluster.kubectl("drain", node, *chosen, "--timeout=120s")
        finally:
            self.cluster.kubectl("uncordon", node)

    def kill(self, pod: str) -> None:
        """Kill the launcher in a pod with SIGKILL, as a node does that runs out of memory."""
        program = (
            "import os, pathlib\n"
            "for folder in pathlib.Path('/proc').glob('[0-9]*'):\n"
            "    words = (folder / 'cmdline').read_bytes().split(b'\\0')\n"
            "    if words[1:2] == [b'-m'] and words[2].startswith(b'tfsteps.'):\n"
            "        os.kill(int(folder.name), 9)\n"
        )
        self.cluster.kubectl(
            "exec", "-n", self.namespace, pod, "-c", "main", "--", "python", "-c", program, whatever=True
        )

    # --- for a page

    def tasks(self, run: str) -> str:
        """Return the state of each task of a run and how many seconds it took; drivers are left out."""
        states = []
        for task in self.client.get_run(run).run_details.task_details:
            name = task.display_name or "-driver"
            if name.endswith("-driver") or name in {"executor", "root"} or not task.start_time:
                continue
            ended = task.end_time and task.end_time > task.start_time  # year 1: it has not
            took = f" {(task.end_time - task.start_time).total_seconds():.0f} s" if ended else ""
            states.append(f"{name} {task.state}{took}")
        return ", ".join(states)


def phase(job) -> str:
    """Return whether a job goes on, succeeded or failed."""
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition["type"] in {"Succeeded", "Failed"} and condition["status"] == "True":
            return condition["type"].lower()
    return "goes on"
