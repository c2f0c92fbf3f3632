"""The controller of TensorFlowTrainingJobs, from T9k's user manual and API reference."""

import datetime as dt
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.controllers import board, t9k_pods
from tests.controllers.loop import Loop, ensure, itself, owner, reference, stamp
from tests.controllers.t9k_pods import Replica
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource

JOBS = Resource("batch.tensorstack.dev/v1beta1", "tensorflowtrainingjobs", "TensorFlowTrainingJob")
BOARDS = Resource("tensorstack.dev/v1beta1", "tensorboards", "TensorBoard")
MAX_DURATION = "test.tensorstack.dev/max-duration"
"""Annotation of a job: seconds that it may run before it is paused, as it is when a queue's maxDuration has passed."""

_POD_GROUPS = Resource("scheduler.tensorstack.dev/v1beta1", "podgroups", "PodGroup")
_EVENTS = Resource("v1", "events", "Event")
_CONDITIONS = ("Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused")
_COUNTED = ("creating", "pending", "running", "succeeded", "failed", "unknown", "deleted")
_ENDED = ("Succeeded", "Failed")


def run(api: Api) -> None:
    """Look after all jobs of the cluster, for ever."""
    loop = Loop(lambda namespace, name: _reconcile(api, namespace, name))
    loop.watch(api, JOBS, itself)
    loop.watch(api, PODS, owner(JOBS.kind), labelSelector=t9k_pods.OWNER)
    loop.run()


def _reconcile(api: Api, namespace: str, name: str) -> float | None:
    try:
        job = api.get(JOBS, namespace, name)
    except ApiError as error:
        if error.missing:
            return None
        raise
    if "deletionTimestamp" in job["metadata"]:
        return None
    listed = api.iterate(PODS, namespace, labelSelector=f"{t9k_pods.OWNER}={name}")
    uid = job["metadata"]["uid"]
    own_pods = [item for item in listed if uid in [ref["uid"] for ref in item["metadata"].get("ownerReferences") or []]]
    return _Round(api, job, own_pods).go()


class _Round:
    """One look at a job and its pods, and what follows."""

    def __init__(self, api: Api, job: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        self._api, self._job = api, job
        self._namespace = job["metadata"]["namespace"]
        self._pods = {pod["metadata"]["name"]: pod for pod in pods}
        status = job.get("status") or {}
        self._phase = status.get("phase", "")
        self._conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
        self._restarts = Counter({item["type"]: item["restartCount"] for item in status.get("tasks") or []})
        self._used = status.get("backoffCount", 0)
        reported = [one for task in status.get("tasks") or [] for one in task.get("replicas") or []]
        self._reported = {item["name"]: item for item in reported}
        self._board = status.get("tensorboard")
        self._policy = job["spec"].get("runPolicy") or {}

    def go(self) -> float | None:
        if self._phase in _ENDED:
            self._clean_up()
            return None
        self._begin()
        if self._expired():
            self._end("Failed", "DeadlineExceeded", "The job has run for longer than activeDeadlineSeconds.")
        elif self._paused():
            self._hold()
        else:
            self._train()
        self._report()
        if self._phase in _ENDED:
            self._clean_up()
            return None
        return self._next_look()

    # --- phases

    def _begin(self) -> None:
        for kind in _CONDITIONS:
            self._conditions.setdefault(kind, {"type": kind, "status": "False", "lastTransitionTime": stamp()})
        self._phase = self._phase or "Pending"
        self._say("Initialized", on=True)
        if self._job["spec"].get("tensorboardSpec") and not self._board:
            self._make_board()

    def _expired(self) -> bool:
        limit = self._policy.get("activeDeadlineSeconds")
        return bool(limit) and self._since("Initialized") > limit

    def _paused(self) -> bool:
        mode = self._job["spec"].get("runMode") or {}
        return bool((mode.get("pause") or {}).get("enabled"))

    def _hold(self) -> None:
        """Take the pods away; the job is Paused when the last one is gone."""
        for pod in self._pods.values():
            self._delete(pod)
        self._reported = {name: {**pod, "phase": "Deleted"} for name, pod in self._reported.items()}
        if not self._pods:
            self._phase = "Paused"
            self._say("Paused", on=True)
            self._say("Running", on=False)

    def _train(self) -> None:
        if self._phase == "Paused":
            self._phase = "Resuming"
            self._say("Paused", on=False, reason="Resumed")
        for replica in t9k_pods.replicas(self._job):
            self._look_at(replica)
            if self._phase in _ENDED:
                return
        if any(pod["status"].get("phase") == "Running" for pod in self._pods.values()):
            self._phase = "Running"
            self._say("Running", on=True)
        self._over_time()

    def _look_at(self, replica: Replica) -> None:
        pod = self._pods.get(replica.name)
        phase = self._reported.get(replica.name, {}).get("phase")
        if pod is None:
            if phase not in _ENDED:
                self._make(replica)
        elif pod["status"].get("phase") not in _ENDED or (
            "deletionTimestamp" in pod["metadata"] and phase == "Deleted"
        ):
            return  # it runs, or a pause or a restart has taken it away
        elif t9k_pods.restarts(replica, pod):
            self._restart(replica, pod)
        else:
            self._ended(replica, pod)

    def _restart(self, replica: Replica, pod: dict[str, Any]) -> None:
        limit = self._policy.get("backoffLimit")
        if limit is not None and self._used >= limit:  # Chosen: whoever uses it up, the job fails
            self._say("ReplicaFailure", on=True)
            self._end("Failed", "BackoffLimitExceeded", f"{replica.name} failed, and all restarts are used up.")
            return
        self._used += 1
        self._restarts[replica.spec["type"]] += 1
        self._reported[replica.name] = {"name": replica.name, "phase": "Deleted"}
        self._report()  # counted before it is done, so that it is counted once
        self._delete(pod)

    def _ended(self, replica: Replica, pod: Mapping[str, Any]) -> None:
        failed = pod["status"]["phase"] == "Failed"
        if failed:
            self._say("ReplicaFailure", on=True)
        if replica != t9k_pods.main_replica(self._job):
            return
        if failed:
            self._end("Failed", "ReplicaFailed", f"{replica.name} failed with exit code {t9k_pods.exit_code(pod)}.")
        else:
            self._end("Succeeded", "JobCompleted", f"{replica.name} has succeeded.")

    def _end(self, phase: str, reason: str, message: str) -> None:
        self._phase = phase
        self._say("Completed" if phase == "Succeeded" else "Failed", on=True, reason=reason, message=message)
        self._say("Running", on=False)

    def _clean_up(self) -> None:
        policy = self._policy.get("cleanUpPolicy", "None")
        for pod in self._pods.values():
            if policy == "All" or (policy == "Unfinished" and pod["status"].get("phase") not in _ENDED):
                self._delete(pod)

    def _over_time(self) -> None:
        """Do as the platform's Duration Keeper does to a job whose queue's time is over."""
        limit = (self._job["metadata"].get("annotations") or {}).get(MAX_DURATION)
        if self._phase != "Running" or limit is None or self._since("Running") < float(limit):
            return
        self._warn("MaxDurationExceeded", "The queue's maxDuration has passed.")
        change = {"metadata": {"annotations": {MAX_DURATION: None}}, "spec": {"runMode": {"pause": {"enabled": True}}}}
        self._job = self._api.patch(JOBS, self._namespace, self._job["metadata"]["name"], change)

    def _warn(self, reason: str, message: str) -> None:
        meta = self._job["metadata"]
        about = {"kind": JOBS.kind, "apiVersion": JOBS.api, "name": meta["name"], "namespace": self._namespace}
        event = {
            "metadata": {"generateName": f"{meta['name']}-"},
            "involvedObject": {**about, "uid": meta["uid"]},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "firstTimestamp": stamp(),
            "lastTimestamp": stamp(),
        }
        self._api.create(_EVENTS, self._namespace, event)

    # --- objects

    def _make(self, replica: Replica) -> None:
        resumed = "Resumed" in self._conditions["Paused"].get("reason", "")
        ensure(self._api, board.SERVICES, self._namespace, t9k_pods.service(self._job, replica))
        if group := t9k_pods.pod_group(self._job):
            self._group(group)
        pod = t9k_pods.pod(self._job, replica, resumed=resumed)
        try:
            self._pods[replica.name] = self._api.create(PODS, self._namespace, pod)
        except ApiError as error:
            if error.status in (400, 422):  # Chosen: what no pod can be made of ends the job
                self._end("Failed", "InvalidTemplate", str(error))
            elif error.status != 409:
                self._warn("FailedCreatePod", f"Error creating: {error}")  # Chosen: as the training operator does
                raise

    def _group(self, group: Mapping[str, Any]) -> None:
        try:
            ensure(self._api, _POD_GROUPS, self._namespace, group)
        except ApiError as error:
            if error.status != 404:  # a cluster without the platform's scheduler
                raise

    def _delete(self, pod: dict[str, Any]) -> None:
        if "deletionTimestamp" not in pod["metadata"]:
            self._api.delete(PODS, self._namespace, pod["metadata"]["name"], pod["metadata"]["uid"])
            pod["metadata"]["deletionTimestamp"] = stamp()

    def _make_board(self) -> None:
        name = self._job["metadata"]["name"]
        meta = {"name": name, "ownerReferences": [reference(self._job)]}
        ensure(self._api, BOARDS, self._namespace, {"metadata": meta, "spec": self._job["spec"]["tensorboardSpec"]})
        board = self._api.get(BOARDS, self._namespace, name)
        who = {"apiVersion": BOARDS.api, "kind": BOARDS.kind, "name": name, "namespace": self._namespace}
        self._board = {
            "action": "create",
            "name": name,
            "dependent": {**who, "uid": board["metadata"]["uid"]},
            "note": f"TensorBoard {name} created",
            "ready": True,
            "reason": "Created",
            "type": "Normal",
        }

    # --- status

    def _say(self, kind: str, *, on: bool, reason: str = "", message: str = "") -> None:
        status = "True" if on else "False"
        old = self._conditions.get(kind) or {}
        changed = old.get("status") != status
        at = stamp() if changed else old["lastTransitionTime"]
        words = {"reason": reason, "message": message} if changed or reason else {}
        self._conditions[kind] = {"type": kind, **old, **words, "status": status, "lastTransitionTime": at}

    def _since(self, kind: str) -> float:
        return time.time() - dt.datetime.fromisoformat(self._conditions[kind]["lastTransitionTime"]).timestamp()

    def _report(self) -> None:
        tasks = [self._task(spec) for spec in self._job["spec"]["replicaSpecs"]]
        phases = Counter(one["phase"].lower() for task in tasks for one in task["replicas"])
        status = {
            "phase": self._phase,
            "conditions": [self._conditions[kind] for kind in _CONDITIONS],
            "tasks": tasks,
            "aggregate": {name: phases[name] for name in _COUNTED},
            "backoffCount": self._used,
            **({"tensorboard": self._board} if self._board else {}),
        }
        if status != self._job.get("status"):
            meta = self._job["metadata"]
            body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
            path = JOBS.path(self._namespace, meta["name"], "status")
            self._job = self._api.request("PATCH", path, {}, body)

    def _task(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        members = [replica for replica in t9k_pods.replicas(self._job) if replica.spec["type"] == spec["type"]]
        return {
            "type": spec["type"],
            "restartCount": self._restarts[spec["type"]],
            "replicas": [self._seen(item) for item in members],
        }

    def _seen(self, replica: Replica) -> dict[str, Any]:
        pod, reported = self._pods.get(replica.name), self._reported.get(replica.name)
        if reported and reported["phase"] == "Deleted" and (pod is None or "deletionTimestamp" in pod["metadata"]):
            return reported
        if pod is None:
            return reported or {"name": replica.name, "phase": "Creating"}
        status = pod.get("status") or {}
        return {
            "name": replica.name,
            "uid": pod["metadata"]["uid"],
            "phase": status.get("phase", "Pending"),
            "containers": [_container(containerstatuse) for containerstatuse in status.get("containerStatuses") or []],
        }

    def _next_look(self) -> float | None:
        """Return when time itself may change something."""
        limit = self._policy.get("activeDeadlineSeconds")
        left = [limit - self._since("Initialized") + 0.1] if limit else []
        if MAX_DURATION in (self._job["metadata"].get("annotations") or {}):
            left.append(1.0)
        return max(0.1, min(left)) if left else None


def _container(status: Mapping[str, Any]) -> dict[str, Any]:
    state, detail = next(iter((status.get("state") or {"unknown": {}}).items()))
    code = {"exitCode": detail["exitCode"]} if "exitCode" in detail else {}
    return {"name": status["name"], "state": state, **code}
