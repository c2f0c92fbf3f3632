"""The operator of TfJobs, v1alpha1, as tensorflow/k8s was on 2017-12-12, with apps/v1 for its TensorBoard."""

import os
import pathlib
import random
import string
from collections.abc import Iterator, Mapping
from typing import Any

from tests.controllers import board, tfjob_replicas
from tests.controllers.loop import Loop, ensure, give_up, itself, reference
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch

JOBS = Resource("tensorflow.org/v1alpha1", "tfjobs", "TfJob")
_BATCH = Resource("batch/v1", "jobs", "Job")
_CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
_PERIOD = float(os.environ.get("TFJOB_PERIOD", "1"))  # seconds; its own were 8
_PROGRAM = pathlib.Path(__file__).with_name("grpc_tensorflow_server.py")
_OVER = ("Done", "Failed")
_Item = Mapping[str, Any]


def run(api: Api) -> None:
    """Look after all jobs of the cluster, for ever."""
    _Operator(api).run()


class _Operator:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._loop = Loop(self._reconcile)
        self._known: set[str] = set()  # uids: a change of what is known already is ignored

    def run(self) -> None:
        Watch(self._api, JOBS, "", self._saw)
        self._loop.run()

    def _saw(self, seen: Seen) -> None:
        match seen:
            case Listed(items=items):
                for item in items:
                    self._new(item, at_start=True)
            case Changed(item=item):
                self._new(item, at_start=False)
            case Deleted(item=item):
                self._forget(item)
            case Refused(error=error):
                give_up(f"{JOBS.plural} cannot be watched: {error}")

    def _new(self, item: _Item, *, at_start: bool) -> None:
        if item["metadata"]["uid"] in self._known:
            return
        self._known.add(item["metadata"]["uid"])
        phase = (item.get("status") or {}).get("phase", "")
        if at_start and phase in ("Creating", "CleanUp", "Done"):  # a fault of its own, kept
            self._write(item, {"phase": "Failed", "reason": f"unexpected TfJob phase: {phase}"})
        elif phase not in _OVER:
            self._loop.touch(*itself(item))

    def _forget(self, item: _Item) -> None:
        """Delete what no ownerReference ties to the job."""
        if not (item.get("spec") or {}).get("RuntimeId"):
            return
        namespace, name = item["metadata"]["namespace"], tfjob_replicas.config_map(item["spec"])
        try:
            self._api.request("DELETE", _CONFIG_MAPS.path(namespace, name))
        except ApiError as error:
            if error.status != 404:
                raise

    # --- phases

    def _reconcile(self, namespace: str, name: str) -> float | None:
        try:
            job = self._api.get(JOBS, namespace, name)
        except ApiError as error:
            if error.missing:
                return None
            raise
        status = job.get("status") or {}
        if "deletionTimestamp" in job["metadata"] or status.get("phase") in _OVER:
            return None
        try:
            done = self._step(job, status.get("phase", ""))
        except ApiError as error:
            if error.status not in (400, 422):
                raise
            self._write(job, {"phase": "Failed", "reason": str(error)})  # what nothing can be made of
            return None
        return None if done else _PERIOD

    def _step(self, job: dict[str, Any], phase: str) -> bool:
        """Take a job from its phase to the next; return whether it has ended."""
        if not phase:
            return self._set_up(job)
        if phase == "Creating":
            self._make_all(job)
            self._write(job, {"phase": "Running"})
            return False
        status = self._status(job)
        if status["state"] == "Running":
            if status["replicaStatuses"] != (job.get("status") or {}).get("replicaStatuses"):
                self._write(job, status)
            return False
        self._write(job, {**status, "phase": "Done"})
        return True

    def _set_up(self, job: dict[str, Any]) -> bool:
        spec = job.get("spec") or {}
        if spec_problem := tfjob_replicas.spec_problem(spec):
            self._write(job, {"phase": "Failed", "reason": f"invalid job spec: {spec_problem}"})
            return True
        runtime_id = "".join(random.choices(string.ascii_lowercase + string.digits, k=4))
        whole = tfjob_replicas.defaulted(spec, spec.get("RuntimeId") or runtime_id)
        self._write(job, {"phase": "Creating", "state": "Running"}, spec=whole)
        self._loop.touch(*itself(job))
        return False

    def _status(self, job: _Item) -> dict[str, Any]:
        """Return the status by the pods: the MASTER alone decides."""
        namespace, selector = job["metadata"]["namespace"], f"tf_job_name={job['metadata']['name']}"
        jobs = {item["metadata"]["name"]: item for item in self._api.iterate(_BATCH, namespace, labelSelector=selector)}
        pods = list(self._api.iterate(PODS, namespace, labelSelector=selector))
        states: dict[str, list[str]] = {}
        for task in tfjob_replicas.tasks(job):
            kind, name = task.spec["tfReplicaType"], tfjob_replicas.name_of(job, task)
            task_pods = list(_of_task(pods, kind, task.index))
            succeeded = jobs.get(name, {}).get("status", {}).get("succeeded", 0) > 0
            states.setdefault(kind, []).append(tfjob_replicas.state_of(task_pods, succeeded=succeeded))
        master = states.get("MASTER", ["Running"])[0]
        return {
            "state": master if master in ("Succeeded", "Failed") else "Running",
            "replicaStatuses": [tfjob_replicas.replica_status(kind, state_list) for kind, state_list in states.items()],
        }

    # --- objects

    def _make_all(self, job: _Item) -> None:
        namespace = job["metadata"]["namespace"]
        if any(replicaspec.get("IsDefaultPS") for replicaspec in job["spec"]["replicaSpecs"]):
            data = {_PROGRAM.name: _PROGRAM.read_text()}
            name = tfjob_replicas.config_map(job["spec"])
            ensure(self._api, _CONFIG_MAPS, namespace, {"metadata": {"name": name}, "data": data})
        for task in tfjob_replicas.tasks(job):
            ensure(self._api, board.SERVICES, namespace, tfjob_replicas.service(job, task))
            ensure(self._api, _BATCH, namespace, tfjob_replicas.batch_job(job, task))
        if tensorboard := job["spec"].get("tensorboard"):
            self._make_board(job, tensorboard)

    def _make_board(self, job: _Item, tensorboard: _Item) -> None:
        labels = {**tfjob_replicas.labels(job), "app": "tensorboard"}
        meta = {"name": tfjob_replicas.stem(job, "tensorboard"), "labels": labels, "ownerReferences": [reference(job)]}
        container = {
            "image": job["spec"]["tfImage"],
            "imagePullPolicy": "IfNotPresent",
            "command": ["tensorboard", "--logdir", tensorboard["logDir"], "--host", "0.0.0.0"],
            "volumeMounts": tensorboard.get("volumeMounts") or [],
        }
        service_type = tensorboard.get("serviceType", "ClusterIP")
        namespace = job["metadata"]["namespace"]
        volumes = tensorboard.get("volumes") or []
        board.serve(self._api, namespace, meta, container, volumes=volumes, service_type=service_type)

    def _write(self, job: _Item, status: _Item, spec: _Item | None = None) -> None:
        """Write status, and spec if there is a new one, for both are one object here."""
        meta = job["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": {**(job.get("status") or {}), **status}}
        self._api.patch(JOBS, meta["namespace"], meta["name"], {**body, "spec": spec} if spec else body)


def _of_task(pods: list[dict[str, Any]], kind: str, index: int) -> Iterator[_Item]:
    for pod in pods:
        labels = pod["metadata"]["labels"]
        if labels.get("job_type") == kind and labels.get("task_index") == str(index):
            yield pod
