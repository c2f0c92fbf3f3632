"""A pod that reads what the replicas wrote to a volume that the launcher does not mount, or to a bucket.

For a bucket it runs the image of TensorBoard, which has the clients, with the credentials of the program that trains.
"""

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.resource import PODS
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.identity import MANAGED_BY, PREFIX
from tfsteps.spec import is_uri
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.follow.pods import Pod, pod
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.output_folders import Mount, find_mount, prefer_node, user_of
from tfsteps.systems.kubernetes.permissions import how_to_opt_in
from tfsteps.systems.kubernetes.tensorboard.request import TensorBoardSettings, request_of
from tfsteps.systems.launcher_pod import LauncherImage

_CONTAINER = "reader"
_START_SECONDS = 60.0
_RUN_SECONDS = 300.0
_POLL_SECONDS = 0.5
_DELETE_SECONDS = 3.0  # for an answer: this launcher may be stopping
_LONGEST = 8 << 20  # bytes of output
_LOG_TRIES = 5
_REQUESTS, _LIMITS = {"cpu": "50m", "memory": "64Mi"}, {"cpu": "1", "memory": "512Mi"}
_ANNOTATIONS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
    "sidecar.istio.io/inject": "false",  # a sidecar would outlive the reader
}


class Trainer(NamedTuple):
    """What wrote the folder.

    Attributes:
        job: The job object.
        specs: Specs of its replicas' pods.
        container: Name of the container that trains.
        image: The image that reads buckets.
    """

    job: Mapping[str, Any]
    specs: Sequence[Mapping[str, Any]]
    container: str
    image: str


def read(
    api: Api,
    trainer: Trainer,
    folder: str,
    *,
    owner: Mapping[str, Any] | None,
    launcher: LauncherImage | None,
    program: Sequence[str],
) -> Any:
    """Return the JSON that a program prints last in a pod that has access to a folder or URI.

    None if this process mounts the volume of the folder too.

    Args:
        api: Its `stopping` ends all waiting.
        trainer: What wrote the folder.
        folder: A folder as the replicas see it, or a URI.
        owner: The ownerReference of the pod; None = the job is gone.
        launcher: The image of the launcher's pod; None = not known.
        program: Arguments of Python.

    Raises:
        LaunchError: The folder was not read; the message says why, and what to do.
    """
    mount = None if is_uri(folder) else find_mount(trainer.specs, folder)
    if mount and os.path.ismount(mount.path):
        return None
    if mount is None and not is_uri(folder):
        why = "it is on no claim or NFS export of the replicas, and the launcher does not see that folder"
        raise LaunchError(why, retryable=False)
    fix = f"mount {mount} in the launcher's pod too" if mount else "`tfsteps tensorboard` shows the curves"
    if mount and launcher is None:
        raise LaunchError(f"this launcher is in no pod, or may not get its own; {fix}", retryable=False)
    if owner is None:
        raise LaunchError(f"the job was deleted; {fix}", retryable=False)
    if mount and launcher:
        manifest = volume_pod(trainer.job, owner, mount, launcher, program)
    else:
        manifest = bucket_pod(trainer, owner, folder, launcher, program)
    try:
        return _output(api, trainer.job["metadata"]["namespace"], manifest)
    except Stopped:
        raise LaunchError("this launcher received a stop signal", retryable=False) from None
    except ApiError as error:
        fixes = " or ".join(filter(None, [how_to_opt_in("readers", error), fix]))
        raise LaunchError(f"{error}; {fixes}", retryable=False) from error
    except MALFORMED as error:
        raise LaunchError(f"an answer of the cluster is not understood: {error!r}", retryable=False) from error


def replica_specs(api: Api, kind: JobKind, job: Mapping[str, Any], roles: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Return the spec of a remaining pod of each role, which has more fields, and those of the templates.

    Args:
        api: The cluster; must not retry.
        kind: Of the job.
        job: The job object.
        roles: The roles of the job's pods, by uid.
    """
    templates = [role.template["spec"] for role in kind.roles(job).values()]
    meta, specs = job["metadata"], dict[str, Mapping[str, Any]]()
    try:
        for item in api.iterate(PODS, meta["namespace"], labelSelector=kind.selector(meta["name"])):
            if role := roles.get(item["metadata"]["uid"]):
                specs.setdefault(role, item["spec"])
    except ApiError:
        return templates
    return [*specs.values(), *templates]


def volume_pod(
    job: Mapping[str, Any],
    owner: Mapping[str, Any],
    mount: Mount,
    launcher: LauncherImage,
    program: Sequence[str],
) -> dict[str, Any]:
    """Return a pod that runs a program on the volume of `mount`, as the user and on the node of a replica.

    Args:
        job: The job object.
        owner: The ownerReference of the pod.
        mount: The volume, and the replica's pod.
        launcher: The image that it runs.
        program: Arguments of the image's Python.
    """
    user = user_of(mount.spec, mount.container)
    container = {
        "image": launcher.image,
        "imagePullPolicy": launcher.pull_policy,
        "volumeMounts": [{**mount.mount, "readOnly": True}],
        "securityContext": {**user, "runAsNonRoot": user.get("runAsUser") != 0},
    }
    spec = {
        **{key: mount.spec[key] for key in ("nodeSelector", "tolerations", "securityContext") if key in mount.spec},
        **prefer_node(mount.spec.get("nodeName", "")),
        "imagePullSecrets": launcher.pull_secrets,
        "volumes": [mount.volume],
    }
    return _pod(job, owner, spec, container, program)


def bucket_pod(
    trainer: Trainer, owner: Mapping[str, Any], uri: str, launcher: LauncherImage | None, program: Sequence[str]
) -> dict[str, Any]:
    """Return a pod that runs a program with the access to buckets that the program that trains has.

    Args:
        trainer: What wrote there; its image is run.
        owner: The ownerReference of the pod.
        uri: The URI that is read.
        launcher: Its pull policy and pull secrets are used too; None = not known.
        program: Arguments of the image's Python.
    """
    request = request_of(trainer.job, trainer.specs, trainer.container, TensorBoardSettings(log_dirs={"": uri}))
    container = {
        "image": trainer.image,
        **({"imagePullPolicy": launcher.pull_policy} if launcher else {}),
        "env": [{"name": "HOME", "value": "/tmp"}, *request.env],  # noqa: S108  the only folder that is writable
        "envFrom": list(request.env_from),
        "volumeMounts": [*request.mounts, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
        "securityContext": {"runAsNonRoot": True},
    }
    spec = {
        **request.pod,
        "imagePullSecrets": [*request.pod.get("imagePullSecrets", ()), *(launcher.pull_secrets if launcher else ())],
        "volumes": [*request.volumes, {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
    }
    return _pod(trainer.job, owner, spec, container, program)


def _pod(
    job: Mapping[str, Any],
    owner: Mapping[str, Any],
    spec: Mapping[str, Any],
    container: Mapping[str, Any],
    program: Sequence[str],
) -> dict[str, Any]:
    """Return a pod that runs a program of Python once; pod security `restricted` admits it."""
    meta = job["metadata"]
    metadata = {
        "name": f"{meta['name']}-{_CONTAINER}",
        "labels": {key: value for key, value in (meta.get("labels") or {}).items() if _is_ours(key)},
        "annotations": _ANNOTATIONS,
        "ownerReferences": [owner],
    }
    whole = {
        **container,
        "name": _CONTAINER,
        "command": ["python"],
        "args": [word.replace("$(", "$$(") for word in program],
        "resources": {"requests": _REQUESTS, "limits": _LIMITS},
        "securityContext": {
            **container["securityContext"],
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    more = {
        "containers": [whole],
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "activeDeadlineSeconds": round(_START_SECONDS + _RUN_SECONDS),
        "terminationGracePeriodSeconds": 1,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **more}}


def _output(api: Api, namespace: str, manifest: Mapping[str, Any]) -> Any:
    """Create a pod, wait for its end, delete it, and return the JSON that it printed last."""
    created = _created(api, namespace, manifest)["metadata"]
    name, uid = created["name"], created["uid"]
    try:
        _await_end(api, namespace, name, uid)
        return _printed(api, namespace, name)
    finally:
        with contextlib.suppress(ApiError):  # its deadline ends it, and it is deleted with its owner
            Api(api.access, patience=0, read_seconds=_DELETE_SECONDS).delete(PODS, namespace, name, uid)


def _created(api: Api, namespace: str, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Create a pod, or adopt the one that an earlier launcher of the job created to run the same program.

    Raises:
        LaunchError: Another pod has its name.
    """
    try:
        return api.create(PODS, namespace, manifest)
    except ApiError as error:
        if error.status != 409:
            raise
    item = api.get(PODS, namespace, manifest["metadata"]["name"])
    if _purpose(item) != _purpose(manifest):
        name = f"{namespace}/{manifest['metadata']['name']}"
        raise LaunchError(f"pod {name} exists and is not this job's; delete it", retryable=False)
    return item


def _purpose(item: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the uids of a pod's owners, and the arguments of its program; webhooks may add other containers."""
    owners = [owner["uid"] for owner in item["metadata"].get("ownerReferences") or []]
    containers = [container for container in item["spec"]["containers"] if container["name"] == _CONTAINER]
    return owners, [argument for container in containers for argument in container.get("args") or []]


def _await_end(api: Api, namespace: str, name: str, uid: str) -> None:
    """Wait until the pod of this uid has succeeded. LaunchError if it fails, is replaced, or takes too long."""
    begun = time.monotonic()
    while True:
        seen = pod(api.get(PODS, namespace, name), _CONTAINER)
        if seen.uid != uid:
            raise LaunchError(f"pod {namespace}/{name} was deleted, and another pod has its name", retryable=False)
        if seen.ended:
            break
        waited, starting = time.monotonic() - begun, seen.state is ReplicaState.PENDING
        if waited > (_START_SECONDS if starting else _START_SECONDS + _RUN_SECONDS):
            late = "did not start" if starting else "did not end"
            raise LaunchError(f"pod {namespace}/{name} {late} within {waited:.0f} s{_reason(seen)}", retryable=False)
        if api.stopping.wait(_POLL_SECONDS):
            raise Stopped
    if seen.state is not ReplicaState.SUCCEEDED:
        code = "" if seen.exit_code is None else f" with exit code {seen.exit_code}"
        raise LaunchError(f"pod {namespace}/{name} failed{code}{_reason(seen)}", retryable=False)


def _printed(api: Api, namespace: str, name: str) -> Any:
    """Return the JSON in the last line of an ended pod's log, which may appear with a delay."""
    query = {"container": _CONTAINER, "limitBytes": str(_LONGEST)}
    trouble: Exception = ValueError("its log is empty")

    def read() -> bytes:
        with api.open("GET", PODS.path(namespace, name, "log"), query) as response:
            return response.read()

    for _ in range(_LOG_TRIES):
        try:
            return json.loads(api.retry(read).rstrip(b"\n").rpartition(b"\n")[2])
        except (ApiError, ValueError, RecursionError) as error:
            trouble = error
            if isinstance(error, ApiError) and error.unavailable:  # for all of the client's patience
                break
        if api.stopping.wait(_POLL_SECONDS):
            raise Stopped
    raise LaunchError(f"the output of pod {namespace}/{name} is not understood: {trouble}", retryable=False)


def _reason(seen: Pod) -> str:
    return ": " + ", ".join(filter(None, [seen.reason, seen.message])) if seen.reason or seen.message else ""


def _is_ours(label: str) -> bool:
    return label.startswith(PREFIX) or label in MANAGED_BY
