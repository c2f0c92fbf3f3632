"""The runtimes of TrainJobs: the fields of a job that only a runtime can set. Pure.

`make golden` writes manifests/trainjob-runtimes from this module.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

from tfsteps.kube.resource import Resource
from tfsteps.spec import TrainingJob
from tfsteps.systems.kubernetes.render.indexed_job import exit_code_policy
from tfsteps.systems.trainjob.overrides import CONTAINER

RUNTIMES = Resource("trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime")
FOLDER = "manifests/trainjob-runtimes"
_LABEL = "trainer.kubeflow.org/"
_MIRRORED, _SERVERS = "tensorflow-multi-worker-mirrored", "tensorflow-parameter-server"
_RESTARTS = ("never", "on_failure", "exit_code")
_NO_LIMIT = 1_000_000  # a runtime serves jobs with any backoff limit; tfsteps counts the restarts
_TASK = pathlib.Path(__file__).with_name("task.sh")


def runtime_name(job: TrainingJob) -> str:
    """Return the name of the runtime for a job, from its strategy, success policy and restart policy."""
    restart = next((role.restart for _, role in job.roles.items() if role.restart), job.restart)
    return _name(_SERVERS if job.roles.ps else _MIRRORED, job.success == "all_workers", restart)


def runtimes() -> Iterator[dict[str, Any]]:
    """Yield every ClusterTrainingRuntime that `runtime_name` can return."""
    for kind, all_workers in ((_MIRRORED, False), (_MIRRORED, True), (_SERVERS, False)):
        for restart in _RESTARTS:
            yield {
                "apiVersion": RUNTIMES.api,
                "kind": RUNTIMES.kind,
                "metadata": {
                    "name": _name(kind, all_workers, restart),
                    "labels": {f"{_LABEL}framework": "tensorflow", "app.kubernetes.io/part-of": "tfsteps"},
                },
                "spec": {
                    "mlPolicy": {"numNodes": 1},
                    "template": {"spec": {"replicatedJobs": [_node(restart, alone=not all_workers)]}},
                },
            }


def _name(kind: str, all_workers: bool, restart: str) -> str:
    return kind + "-all-workers" * all_workers + ("" if restart == "never" else f"-{restart.replace('_', '-')}")


def _node(restart: str, *, alone: bool) -> dict[str, Any]:
    """Return the replicated job. The completion index of a pod is its rank, and rank 0 is the decisive replica.

    Args:
        restart: As in a job file.
        alone: Whether the success of rank 0 ends the job; otherwise all ranks must succeed.
    """
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "backoffLimit": 0 if restart == "never" else _NO_LIMIT,
        "podReplacementPolicy": "Failed",
        "template": {
            "spec": {"restartPolicy": "OnFailure" if restart == "on_failure" else "Never", "containers": [_container()]}
        },
    }
    if restart == "exit_code":
        spec["podFailurePolicy"] = exit_code_policy(CONTAINER)
    if alone:
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    step = {"labels": {f"{_LABEL}trainjob-ancestor-step": "trainer"}}
    return {"name": CONTAINER, "template": {"metadata": step, "spec": spec}}


def _container() -> dict[str, Any]:
    """Return the container. Its command sets TF_CONFIG, because Trainer does not."""
    fields = {
        "TFSTEPS_JOB": "metadata.labels['jobset.sigs.k8s.io/jobset-name']",
        "TFSTEPS_NAMESPACE": "metadata.namespace",
    }
    return {
        "name": CONTAINER,
        "command": ["sh", "-c", _TASK.read_text(), "tensorflow"],
        "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()],
    }
