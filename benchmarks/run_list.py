"""How long `tfsteps runs` takes for a thousand runs on a real API server: suspended TFJobs, a quarter with two pods."""

import concurrent.futures
import os
import pathlib
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.kubernetes import NAMESPACES
from benchmarks.measure import Row
from tests.cluster import paths
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.resource import PODS
from tfsteps.runs.identity import MANAGED_BY, Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.kubeflow.tfjob import TFJob

RUNS = 1000
WITH_PODS = 4  # one in so many runs has pods: those of ended jobs are deleted
TIMES = {True: 3, False: 7}
COMMAND = pathlib.Path(sys.executable).with_name("tfsteps")
IMAGE = "registry.example/train:1"
JOB = f"""
name: mnist
image: {IMAGE}
command: [python, train.py, --epochs, "20"]
env: {{BATCH: "64", DATA: /data/mnist}}
roles: {{chief: {{}}, worker: {{replicas: 2, resources: {{cpu: 2, memory: 4Gi}}}}}}
volumes: [{{pvc: data, mount: /data}}]
output_dir: /data/runs/{{run_id}}/{{task}}
systems: {{kubeflow: {{suspend: true}}}}
"""


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield the time of the command; `quick` takes fewer runs of it."""
    os.environ.setdefault("KUBECONFIG", str(paths.KUBECONFIG))
    api, namespace = Api(access.find()), f"bench-{secrets.token_hex(3)}"
    created = api.create(NAMESPACES, "", {"metadata": {"name": namespace, "labels": MANAGED_BY}})
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: _create(api, namespace, number), range(RUNS)))
        measured = [(*_seconds(namespace), _bare(api, namespace)) for _ in range(TIMES[quick] + 1)][1:]
    finally:
        api.delete(NAMESPACES, "", namespace, created["metadata"]["uid"])
    wall, cpu, bare = (statistics.median(values) for values in zip(*measured, strict=True))
    what = (
        f"`tfsteps runs --on kubernetes` for {RUNS} runs, with its start; baseline: the two lists that it reads, unread"
    )
    yield Row("runs_of_cluster", what, wall, "s", 2, len(measured), bare, wall / bare)
    yield Row("runs_of_cluster_cpu", "the same: CPU of the command", cpu, "s", None, len(measured))


def _create(api: Api, namespace: str, number: int) -> None:
    identity = Identity(run=f"mnist-{number:010}", task="mnist", pipeline="nightly")
    folder = f"/data/runs/{identity.run}/mnist"
    outputs = OutputPaths(output=folder, model=f"{folder}/export", logs=f"{folder}/logs", base_dir=None)
    job = spec.parse(JOB, "job", registry.options())
    item = api.create(TFJob.resource, namespace, TFJob().render(job, identity, outputs, namespace).manifest)
    if number % WITH_PODS == 0:
        for index in range(2):
            api.create(PODS, namespace, _pod(item, index))


def _pod(job: dict[str, Any], index: int) -> dict[str, Any]:
    """Return the pod of a worker, which no scheduler takes."""
    meta = job["metadata"]
    kinds = {"job-name": meta["name"], "replica-type": "worker", "replica-index": str(index)}
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {
        "metadata": {
            "name": f"{meta['name']}-worker-{index}",
            "labels": {**meta["labels"], **{f"training.kubeflow.org/{key}": text for key, text in kinds.items()}},
            "ownerReferences": [owner],
        },
        "spec": {
            "schedulerName": "none",
            "containers": [{"name": TFJob().container, "image": IMAGE}],
        },
    }


def _bare(api: Api, namespace: str) -> float:
    """Return the seconds in which the API server sends all TFJobs and pods of tfsteps."""
    began = time.perf_counter()
    selector = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
    for resource in (TFJob.resource, PODS):
        with api.open("GET", resource.path(namespace), {"labelSelector": selector}) as response:
            response.read()
    return time.perf_counter() - began


def _seconds(namespace: str) -> tuple[float, float]:
    """Return the wall time and CPU of the command, in seconds."""
    command = [COMMAND, "runs", "--on", "kubernetes", "--namespace", namespace]
    before, began = os.times(), time.perf_counter()
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    wall, after = time.perf_counter() - began, os.times()
    if len(listed.splitlines()) != RUNS + 1:
        raise SystemExit(f"{len(listed.splitlines()) - 1} of {RUNS} runs were listed")
    return wall, after.children_user + after.children_system - before.children_user - before.children_system
