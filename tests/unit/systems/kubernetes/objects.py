"""TFJobs and pods as the API server returned them, cut to what matters, and ways to vary them."""

import json
import pathlib
from typing import Any

STATUSES = json.loads(pathlib.Path(__file__).with_name("pod_statuses.json").read_text())
"""Pods' `status`, recorded on Kubernetes 1.34, by what had happened to the pod."""

_LABEL = "training.kubeflow.org/"


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason or f"TFJob{kind}", "message": message}


def tfjob(*conditions: str | dict[str, Any], uid: str = "u1", **run_policy: Any) -> dict[str, Any]:
    """Return a TFJob; a condition that is only a word is True."""
    listed = [condition(item) if isinstance(item, str) else item for item in conditions]
    return {
        "metadata": {"name": "job", "namespace": "ns", "uid": uid, "resourceVersion": "7"},
        "spec": {"runPolicy": run_policy, "tfReplicaSpecs": {}},
        "status": {"conditions": listed} if listed else {},
    }


def controller(kind: str = "TFJob", uid: str = "u1", api: str = "kubeflow.org/v1", name: str = "job") -> dict[str, Any]:
    """Return the reference of an object to what controls it."""
    return {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True}


def pod(status: str | dict[str, Any], replica: str = "worker-0", uid: str = "p1") -> dict[str, Any]:
    """Return the pod of a replica, with a recorded status or a given one."""
    role, index = replica.split("-")
    meta = {
        "name": f"job-{replica}",
        "uid": uid,
        "labels": {f"{_LABEL}job-name": "job", f"{_LABEL}replica-type": role, f"{_LABEL}replica-index": index},
        "ownerReferences": [controller()],
    }
    return {"metadata": meta, "status": STATUSES[status] if isinstance(status, str) else status}
