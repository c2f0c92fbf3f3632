"""How long others take to notice the end of a job, beside ours and on the same cluster.

What a pipeline author would use without tfsteps: an Argo `resource` step, and a step with kubeflow-training's client,
both as their manuals show them. The jobs are alike, and the end is measured from the same watch.
"""

import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

from benchmarks.kubernetes import IMAGE, Environment
from benchmarks.measure import Row
from tests.cluster import paths
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.kube.resource import PODS
from tfsteps.kube.watch import Changed, Seen, Watch
from tfsteps.systems.kubeflow.tfjob import TFJob

RUNS = 6
COMMAND = "sleep 3"
CLIENT = "kubeflow-training==1.9.4"
WAIT = """
import sys
from kubeflow.training import TrainingClient
namespace, name = sys.argv[1:]
TrainingClient(namespace=namespace, job_kind="TFJob").wait_for_job_conditions(name)
"""


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield a row for each peer: its median, and ours as the baseline; `quick` takes fewer runs."""
    os.environ.setdefault("KUBECONFIG", str(paths.KUBECONFIG))
    runs = 2 if quick else RUNS
    with tempfile.TemporaryDirectory() as folder, Environment(pathlib.Path(folder)) as environment:
        python = _client_python(pathlib.Path(folder))
        steps = _Steps(environment)
        ours, argo, client = [], [], []
        for i in range(runs):
            ours.append(_ours(environment, f"ours{i}"))
            argo.append(_argo(environment, steps, f"argo{i}"))
            client.append(_client(environment, python, f"client{i}"))
    yield _row("peer_argo_resource_ms", "job object turns terminal -> an Argo `resource` step's pod ends", argo, ours)
    what = f"job object turns terminal -> a process that waits with {CLIENT} ends"
    yield _row("peer_training_client_ms", what, client, ours)


def _row(name: str, what: str, theirs: list[float], ours: list[float]) -> Row:
    a, b = statistics.median(theirs), statistics.median(ours)
    return Row(name, f"{what}; baseline: our step", a * 1e3, "ms", None, len(theirs), b * 1e3, a / b)


def _ours(environment: Environment, task: str) -> float:
    launcher = environment.start(task, COMMAND)
    return _exit_after_end(environment, task, launcher)


def _client(environment: Environment, python: pathlib.Path, task: str) -> float:
    environment.api.create(TFJob.resource, environment.namespace, _job(task))
    environment.when(task, "created")
    process = subprocess.Popen([python, "-c", WAIT, environment.namespace, _name(task)])
    return _exit_after_end(environment, task, process)


def _exit_after_end(environment: Environment, task: str, process: subprocess.Popen) -> float:
    """Return the seconds from the end of a task's job to that of a process."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        gone = pool.submit(lambda: (process.wait(), time.monotonic()))
        ended = environment.when(task, "ended")
        code, at = gone.result()
    if code:
        raise SystemExit(f"{task} failed: exit code {code}")
    return at - ended


def _client_python(folder: pathlib.Path) -> pathlib.Path:
    """Return the interpreter of an environment that has kubeflow-training's client."""
    environment = folder / "client"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", CLIENT], check=True)
    return python


# --- Argo's resource step


class _Steps:
    """When the step's pod of each Workflow ended."""

    def __init__(self, environment: Environment) -> None:
        self._news = threading.Condition()
        self._ended: dict[str, float] = {}
        selector = "workflows.argoproj.io/workflow"
        Watch(environment.api, PODS, environment.namespace, self._saw, labelSelector=selector)

    def _saw(self, seen: Seen) -> None:
        if isinstance(seen, Changed) and seen.item["status"].get("phase") in {"Succeeded", "Failed"}:
            with self._news:
                name = seen.item["metadata"]["labels"]["workflows.argoproj.io/workflow"]
                self._ended.setdefault(name, time.monotonic())
                self._news.notify_all()

    def ended(self, name: str) -> float:
        """Wait for the end of a Workflow's step, and return when it was."""
        with self._news:
            if not self._news.wait_for(lambda: name in self._ended, 120):
                raise SystemExit(f"the step of {name} did not end")
            return self._ended[name]


def _argo(environment: Environment, steps: _Steps, task: str) -> float:
    resource = {
        "action": "create",
        "setOwnerReference": True,
        "successCondition": "status.replicaStatuses.Worker.succeeded = 1",
        "failureCondition": "status.replicaStatuses.Worker.failed > 0",
        "manifest": json.dumps(_job(task)),
    }
    spec = {
        "entrypoint": "train",
        "serviceAccountName": "launcher",
        "templates": [{"name": "train", "resource": resource}],
    }
    body = {"apiVersion": WORKFLOWS.api, "kind": WORKFLOWS.kind, "metadata": {"name": task}, "spec": spec}
    environment.api.create(WORKFLOWS, environment.namespace, body)
    return steps.ended(task) - environment.when(task, "ended")


def _name(task: str) -> str:
    return f"{task}-peer"


def _job(task: str) -> dict:
    container = {"name": "tensorflow", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", COMMAND]}
    worker = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": TFJob.resource.api,
        "kind": TFJob.resource.kind,
        "metadata": {"name": _name(task)},
        "spec": {"runPolicy": {"cleanPodPolicy": "Running"}, "tfReplicaSpecs": {"Worker": worker}},
    }
