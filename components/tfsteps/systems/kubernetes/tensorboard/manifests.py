"""The Kubernetes Job of a TensorBoard, and its Service or Kubeflow's resource. Kubernetes ends all of them. Pure."""

import urllib.parse
from typing import Any

from tfsteps.image import TENSORBOARD_IMAGE
from tfsteps.runs.identity import MANAGED_BY, PREFIX
from tfsteps.spec import is_uri
from tfsteps.systems.kubernetes.permissions import TENSORBOARDS
from tfsteps.systems.kubernetes.tensorboard.request import KUBEFLOW, NoStorageError, TensorBoardRequest
from tfsteps.tensorboard.address import HEALTH, PORT

_SCHEMES = ("s3://", "gs://")
COMPONENT = {"app.kubernetes.io/component": "tensorboard"}
CONTAINER = "tensorboard"
NAME = f"{PREFIX}tensorboard"
"""Label of the pods of a TensorBoard: its name."""
_REMOVED_AFTER = 300  # seconds after its end; its name is free then
_RESTARTS = 50  # with pauses of up to six minutes: hours in which a node or an image can come back
_REQUESTS, _LIMITS = {"cpu": "50m", "memory": "128Mi"}, {"cpu": "1", "memory": "1Gi"}
_ANNOTATIONS = {"sidecar.istio.io/inject": "false"}  # a sidecar would keep the pod running after its end


def logs_path(request: TensorBoardRequest) -> str:
    """Return `spec.logspath`: `pvc://CLAIM/FOLDER`, or a URI.

    Raises:
        NoStorageError: The resource takes one folder only, on a claim or at `s3://` or `gs://`.
    """
    folders = [*request.settings.log_dirs.values()]
    if len(folders) > 1:
        raise NoStorageError("`via: kubeflow` shows one run at a time; show the runs one by one")
    (folder,) = folders
    if is_uri(folder):
        if folder.startswith(_SCHEMES):
            return folder
        raise NoStorageError(f"{folder}: `via: kubeflow` reads s3:// and gs://; remove `via`")
    volume, mount = (request.mount.volume, request.mount.mount) if request.mount else ({}, {})
    claim = volume.get("persistentVolumeClaim")
    if not claim:
        raise NoStorageError(f"{folder} is on no claim, and `via: kubeflow` reads claims only; remove `via`")
    below = folder.removeprefix(str(mount["mountPath"]).rstrip("/")).strip("/")
    parts = [claim["claimName"], str(mount.get("subPath", "")).strip("/"), below]
    return "pvc://" + "/".join(part for part in parts if part)


def job(request: TensorBoardRequest, address: str, remaining: float) -> dict[str, Any]:
    """Return the Job; pod security `restricted` admits its pod.

    Args:
        request: What to start.
        address: The public address, whose path the program serves too; empty = none.
        remaining: Seconds for which the training may still go on.
    """
    labels = _labels(request)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(request),
        "spec": {
            "backoffLimit": _RESTARTS,
            "activeDeadlineSeconds": deadline(request, remaining),
            "ttlSecondsAfterFinished": _REMOVED_AFTER,
            "template": {"metadata": {"labels": labels, "annotations": _ANNOTATIONS}, "spec": _pod(request, address)},
        },
    }


def dependent(request: TensorBoardRequest) -> dict[str, Any]:
    """Return the Service, or Kubeflow's resource, whose controller makes server and Service; the Job becomes the owner.

    Raises:
        NoStorageError: Kubeflow cannot read the log directory.
    """
    if request.settings.via == KUBEFLOW:
        return {
            "apiVersion": TENSORBOARDS.api,
            "kind": TENSORBOARDS.kind,
            "metadata": {"name": request.name, "namespace": request.namespace, "labels": _labels(request)},
            "spec": {"logspath": logs_path(request)},
        }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(request),
        "spec": {
            "selector": {NAME: request.name},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }


def selector(request: TensorBoardRequest) -> str:
    """Return the label selector of the pods that serve; those of Kubeflow have the labels of their resource too."""
    return f"{NAME}={request.name}" + (f",app={request.name}" if request.settings.via == KUBEFLOW else "")


def deadline(request: TensorBoardRequest, remaining: float) -> int:
    """Return the seconds after which Kubernetes ends a TensorBoard, even one that never starts or never exits."""
    return round(remaining + request.settings.keep_for + request.settings.idle)


def _metadata(request: TensorBoardRequest) -> dict[str, Any]:
    """Return the metadata of an object whose labels no controller copies to pods."""
    labels = {**request.job_labels, **_labels(request)}
    return {"name": request.name, "namespace": request.namespace, "labels": labels}


def _labels(request: TensorBoardRequest) -> dict[str, str]:
    """Return the labels of all objects; without a task and an attempt, so that none of them is taken for a job."""
    return {**MANAGED_BY, **COMPONENT, **request.labels, NAME: request.name}


def _pod(request: TensorBoardRequest, address: str) -> dict[str, Any]:
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    storage = [request.mount.volume] if request.mount else []
    return {
        **request.pod,
        "securityContext": {**request.pod.get("securityContext", {}), **context},
        "affinity": _near_run(request),
        "containers": [_container(request, address)],
        "volumes": [*storage, *request.volumes, {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}}],
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
    }


def _container(request: TensorBoardRequest, address: str) -> dict[str, Any]:
    settings = request.settings
    prefix = urllib.parse.urlsplit(address).path.rstrip("/")
    serves = settings.via != KUBEFLOW
    args = [
        *settings.arguments,
        *([f"--idle={settings.idle:g}"] if serves else ["--no-server"]),
        f"--keep-for={settings.keep_for:g}",
        *([f"--path-prefix={prefix}"] if prefix and serves else []),
    ]
    mount = [{**request.mount.mount, "readOnly": True}] if request.mount else []
    probe = {"httpGet": {"path": HEALTH, "port": PORT}}
    return {
        "name": CONTAINER,
        "image": settings.image or TENSORBOARD_IMAGE,
        "command": ["python", "-m", "tfsteps.tensorboard.service"],
        "args": [word.replace("$(", "$$(") for word in args],
        "env": [{"name": "HOME", "value": "/tmp"}, *request.env],  # noqa: S108  the only folder that is writable
        "envFrom": list(request.env_from),
        **(
            {
                "ports": [{"name": "http", "containerPort": PORT}],
                "readinessProbe": {**probe, "periodSeconds": 1, "timeoutSeconds": 5},
                "livenessProbe": {**probe, "initialDelaySeconds": 60, "periodSeconds": 30, "timeoutSeconds": 10},
            }
            if serves
            else {}
        ),
        "volumeMounts": [*mount, *request.mounts, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
        "resources": {"requests": _REQUESTS, "limits": _LIMITS},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _near_run(request: TensorBoardRequest) -> dict[str, Any]:
    """Return a preference for the nodes of the run's pods: a volume may be attachable to one node alone."""
    term = {
        "labelSelector": {"matchLabels": {**MANAGED_BY, **request.labels}},
        "topologyKey": "kubernetes.io/hostname",
    }
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
