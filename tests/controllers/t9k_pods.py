"""The pods of a TensorFlowTrainingJob, as T9k's documents describe them. Pure."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.controllers.loop import reference

OWNER = "tensorstack.dev/owner-name"
REPLICA = "test.tensorstack.dev/replica"  # Chosen: for siblings the label is `genericjob-replica`
_PORT = 2222
_TRAINING = "tensorflow"
_RETRIED = {130, 137, 138, 143}
_HELD = ["sleep", "inf"]
_Item = Mapping[str, Any]


class Replica(NamedTuple):
    """One replica: its type's spec, its index, its pod's name."""

    spec: _Item
    index: int
    name: str


def replicas(job: _Item) -> list[Replica]:
    """Return all replicas of a job."""
    stem = job["metadata"]["name"]
    specs = job["spec"]["replicaSpecs"]
    return [Replica(spec, i, f"{stem}-{spec['type']}-{i}") for spec in specs for i in range(spec.get("replicas", 1))]


def main_replica(job: _Item) -> Replica | None:
    """Return the replica whose end is the job's: chief 0, else worker 0."""
    every = {(replica.spec["type"], replica.index): replica for replica in replicas(job)}
    return every.get(("chief", 0)) or every.get(("worker", 0))


def restarts(replica: Replica, pod: _Item) -> bool:
    """Tell whether the replica of a pod that has ended is started again by its restart policy."""
    failed = pod["status"]["phase"] == "Failed"
    match replica.spec.get("restartPolicy"):
        case "Always":
            return True
        case "OnFailure":
            return failed
        case "ExitCode":
            return failed and exit_code(pod) in _RETRIED
        case _:
            return False


def exit_code(pod: _Item) -> int | None:
    """Return how the training container ended; None = it has not, or nobody knows."""
    listed = pod.get("status", {}).get("containerStatuses") or []
    ends = [item.get("state", {}).get("terminated") for item in listed if item["name"] == _TRAINING]
    return ends[0]["exitCode"] if ends and ends[0] else None


def pod(job: _Item, replica: Replica, *, resumed: bool) -> dict[str, Any]:
    """Return the pod of a replica."""
    template = copy.deepcopy(dict(replica.spec["template"]))
    spec = template["spec"]
    spec["restartPolicy"] = "Never"  # always: the controller makes new pods
    training = [item for item in spec["containers"] if item["name"] == _TRAINING]
    for container in training:
        config = {"cluster": _cluster(job), "task": {"type": replica.spec["type"], "index": replica.index}}
        container["env"] = [*(container.get("env") or []), {"name": "TF_CONFIG", "value": json.dumps(config)}]
        _in_mode(job, replica, spec, container, resumed=resumed)
    labels = {**(template.get("metadata", {}).get("labels") or {}), **dict(_labels(job, replica))}
    meta = {**template.get("metadata", {}), "name": replica.name, "labels": labels, "ownerReferences": [reference(job)]}
    return {"metadata": meta, "spec": spec}


def service(job: _Item, replica: Replica) -> dict[str, Any]:
    """Return the Service that makes a replica a host of its pod's name."""
    meta = {"name": replica.name, "labels": {OWNER: job["metadata"]["name"]}, "ownerReferences": [reference(job)]}
    ports = [{"name": "http", "port": _PORT}]
    selector = {REPLICA: replica.name}
    return {
        "metadata": meta,
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector, "ports": ports},
    }


def pod_group(job: _Item) -> dict[str, Any] | None:
    """Return the PodGroup of a job of the T9k scheduler; None = it has another scheduler."""
    if not (scheduler := (job["spec"].get("scheduler") or {}).get("t9kScheduler")):
        return None
    meta = {"name": job["metadata"]["name"], "ownerReferences": [reference(job)]}
    return {"metadata": meta, "spec": {"minMember": len(replicas(job)), **scheduler}}


def _cluster(job: _Item) -> dict[str, list[str]]:
    """Return TF_CONFIG's cluster. Chosen: hosts are those of the siblings, the evaluator is listed, which is worse."""
    hosts: dict[str, list[str]] = {}
    for replica in replicas(job):
        hosts.setdefault(replica.spec["type"], []).append(f"{replica.name}:{_PORT}")
    return hosts


def _labels(job: _Item, replica: Replica) -> Iterator[tuple[str, str]]:
    name = job["metadata"]["name"]
    yield OWNER, name
    yield REPLICA, replica.name
    if scheduler := (job["spec"].get("scheduler") or {}).get("t9kScheduler"):
        yield "scheduler.tensorstack.dev/group-name", name
        yield "scheduler.tensorstack.dev/queue", scheduler["queue"]
        yield "scheduler.tensorstack.dev/role", replica.spec["type"]


def _in_mode(job: _Item, replica: Replica, spec: dict[str, Any], container: dict[str, Any], *, resumed: bool) -> None:
    """Change what a replica runs: held for debugging, or resumed after a pause."""
    mode = job["spec"].get("runMode") or {}
    debug, kind = mode.get("debug") or {}, replica.spec["type"]
    held = {replicaspec["type"]: replicaspec for replicaspec in debug.get("replicaSpecs") or []}
    resume = {resumespec["type"]: resumespec for resumespec in (mode.get("pause") or {}).get("resumeSpecs") or []}
    if debug.get("enabled") and (kind in held or not held):
        how = held.get(kind, {})
        container["command"], container["args"] = how.get("command") or _HELD, []
    elif resumed:  # of the two manuals, the one that is worse: what is left out is that of the first role
        how = resume.get(kind, {})
        first = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
        ran = next(item for item in first if item["name"] == _TRAINING)
        container |= {key: how.get(key, ran.get(key, [])) for key in ("command", "args")}
    else:
        return
    if how.get("skipInitContainer"):
        spec.pop("initContainers", None)
