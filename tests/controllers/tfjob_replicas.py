"""What tensorflow/k8s makes for the replicas of a TfJob, and how it judges them. Pure."""

import copy
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.controllers.loop import reference

TYPES = ("MASTER", "PS", "WORKER")
CONTAINER = "tensorflow"
_CUT = 40
_SCRIPTS = "/ps-server"
_Item = Mapping[str, Any]


class Task(NamedTuple):
    """One task of a TfJob."""

    spec: _Item
    index: int


def tasks(job: _Item) -> list[Task]:
    """Return all tasks of a job."""
    return [Task(spec, i) for spec in job["spec"]["replicaSpecs"] for i in range(spec["replicas"])]


def spec_problem(spec: _Item) -> str:
    """Return why a spec is not valid; empty = it is. That there is a MASTER is not looked at."""
    for replicaspec in spec.get("replicaSpecs") or []:
        kind = replicaspec.get("tfReplicaType", "MASTER")
        if kind not in TYPES:
            return f"tfReplicaSpec.TfReplicaType is {kind} but must be one of {list(TYPES)}"
        if kind == "MASTER" and replicaspec.get("replicas", 1) != 1:
            return "The MASTER must have Replicas = 1"
        if not replicaspec.get("template") and kind != "PS":
            return "Replica is missing Template"
        containers = (replicaspec.get("template") or {}).get("spec", {}).get("containers") or []
        if replicaspec.get("template") and CONTAINER not in [one["name"] for one in containers]:
            return f"Replica type {kind} is missing a container named {CONTAINER}"
    return ""


def defaulted(spec: _Item, runtime_id: str) -> dict[str, Any]:
    """Return a spec with the operator's defaults."""
    whole = {"tfImage": "tensorflow/tensorflow:1.3.0", "terminationPolicy": {}, "RuntimeId": runtime_id, **spec}
    replicas = []
    for replicaspec in spec.get("replicaSpecs") or []:
        default_ps = replicaspec.get("tfReplicaType") == "PS" and not replicaspec.get("template")
        one = {"replicas": 1, "tfPort": 2222, "tfReplicaType": "MASTER", "IsDefaultPS": default_ps, **replicaspec}
        replicas.append({**one, "template": _default_ps(whole)} if default_ps else one)
    chief = {"replicaName": "MASTER", "replicaIndex": 0}
    return {**whole, "replicaSpecs": replicas, "terminationPolicy": {"chief": chief, **whole["terminationPolicy"]}}


def name_of(job: _Item, task: Task) -> str:
    """Return the name of a task's Service and Job."""
    return f"{stem(job, task.spec['tfReplicaType'].lower())}-{task.index}"


def stem(job: _Item, what: str) -> str:
    """Return how the names of all objects of one type begin."""
    return f"{job['metadata']['name'][:_CUT]}-{what}-{job['spec']['RuntimeId']}"


def labels(job: _Item) -> dict[str, str]:
    """Return the labels of all that is made for a job."""
    return {"tensorflow.org": "", "runtime_id": job["spec"]["RuntimeId"], "tf_job_name": job["metadata"]["name"]}


def service(job: _Item, task: Task) -> dict[str, Any]:
    """Return the Service of a task."""
    ports = [{"name": "tf-port", "port": task.spec["tfPort"]}]
    return {"metadata": _meta(job, task), "spec": {"selector": _labels(job, task), "ports": ports}}


def batch_job(job: _Item, task: Task) -> dict[str, Any]:
    """Return the Job of a task."""
    template = copy.deepcopy(dict(task.spec["template"]))
    template["metadata"] = dict(template.get("metadata") or {})
    template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), **_labels(job, task)}
    for container in template["spec"]["containers"]:
        if container["name"] == CONTAINER:
            container["env"] = [*(container.get("env") or []), {"name": "TF_CONFIG", "value": _tf_config(job, task)}]
            if task.spec.get("IsDefaultPS"):
                container["command"] = _ps_command(job, task)
    return {"metadata": _meta(job, task), "spec": {"completions": 1, "parallelism": 1, "template": template}}


def config_map(spec: _Item) -> str:
    """Return the name of the ConfigMap with the default parameter server's program."""
    return f"cm-ps-{spec['RuntimeId']}"


def state_of(pods: Iterable[_Item], *, succeeded: bool) -> str:
    """Return the state of a task by its Job and its newest pod, of which the last termination counts first."""
    if succeeded:
        return "Succeeded"
    newest = max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)
    if newest is None:
        return "Running"
    for item in newest.get("status", {}).get("containerStatuses") or []:
        if item["name"] == CONTAINER:
            ended = (item.get("lastState") or {}).get("terminated") or (item.get("state") or {}).get("terminated")
            if ended is None:
                return "Running"
            if ended["exitCode"] == 0:
                return "Succeeded"
            retried = ended["exitCode"] > 127 and ended.get("reason") != "OOMKilled"
            return "Running" if retried else "Failed"
    return "Unknown"


def replica_status(kind: str, states: list[str]) -> dict[str, Any]:
    """Return the status of all replicas of a type."""
    counted = Counter(states)
    whole = next((state for state in ("Failed", "Running") if counted[state]), "")
    whole = whole or ("Succeeded" if counted["Succeeded"] == len(states) else "Unknown")
    return {"tf_replica_type": kind, "state": whole, "ReplicasStates": dict(counted)}


def _labels(job: _Item, task: Task) -> dict[str, str]:
    return {**labels(job), "job_type": task.spec["tfReplicaType"], "task_index": str(task.index)}


def _meta(job: _Item, task: Task) -> dict[str, Any]:
    return {"name": name_of(job, task), "labels": _labels(job, task), "ownerReferences": [reference(job)]}


def _cluster(job: _Item) -> dict[str, list[str]]:
    hosts: dict[str, list[str]] = {}
    for task in tasks(job):
        kind = task.spec["tfReplicaType"].lower()
        hosts.setdefault(kind, []).append(f"{name_of(job, task)}:{task.spec['tfPort']}")
    return hosts


def _tf_config(job: _Item, task: Task) -> str:
    about = {"type": task.spec["tfReplicaType"].lower(), "index": task.index}
    return json.dumps({"cluster": _cluster(job), "task": about, "environment": "cloud"})


def _default_ps(spec: _Item) -> dict[str, Any]:
    mount = {"name": "ps-config-volume", "mountPath": _SCRIPTS}
    container = {"name": CONTAINER, "image": spec["tfImage"], "volumeMounts": [mount]}
    container["imagePullPolicy"] = "IfNotPresent"
    volume = {"name": "ps-config-volume", "configMap": {"name": config_map(spec)}}
    return {"spec": {"containers": [container], "volumes": [volume], "restartPolicy": "OnFailure"}}


def _ps_command(job: _Item, task: Task) -> list[str]:
    cluster = ",".join(f"{kind}|{';'.join(hosts)}" for kind, hosts in _cluster(job).items())
    program = ["python", f"{_SCRIPTS}/grpc_tensorflow_server.py", "--cluster_spec", cluster]
    return [*program, "--job_name", "ps", "--task_id", str(task.index)]
