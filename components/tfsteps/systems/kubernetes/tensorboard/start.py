"""Creates the TensorBoard of a run on a cluster, or adopts the one that exists."""

import time
from collections.abc import Mapping
from typing import Any

from tfsteps.image import unqualified
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.runs.demo import check_changeable, mark_of
from tfsteps.systems.kubernetes.dependents import create_dependent
from tfsteps.systems.kubernetes.job_kind import true_conditions
from tfsteps.systems.kubernetes.permissions import JOBS, SERVICES, TENSORBOARDS
from tfsteps.systems.kubernetes.tensorboard import manifests
from tfsteps.systems.kubernetes.tensorboard.request import KUBEFLOW, TensorBoardRequest
from tfsteps.systems.kubernetes.times import seconds
from tfsteps.tensorboard.address import public_url

_DELETION_SECONDS = 60.0
_PAUSE_SECONDS = 0.5


def start(api: Api, request: TensorBoardRequest, remaining: float = 0.0) -> str:
    """Create a TensorBoard, or adopt the run's, and return its address. It need not be ready yet.

    One that has ended is replaced: its data is on the storage.

    Args:
        api: The cluster.
        request: What to start.
        remaining: Seconds for which the training may still go on.

    Raises:
        DemoError: The one that has ended is a demo.
        ApiError: The cluster refuses an object; nothing is left of the others.
        NoStorageError: Kubeflow's TensorBoard cannot read the log directory; nothing was created.
        ValueError: The setting of the public address is not valid, or no registry is set for the image.
        Stopped: The client's `stopping` was set.
    """
    address = public_url(request.namespace, request.name)
    dependent = manifests.dependent(request)
    manifest = manifests.job(request, address, remaining)
    if wrong := unqualified(manifest):
        raise ValueError(f"{wrong[0]}; or set tensorboard.image")
    item = _created(api, request, manifest)
    _extend(api, item, manifest)
    meta = item["metadata"]
    owner = {"apiVersion": JOBS.api, "kind": JOBS.kind, "name": meta["name"], "uid": meta["uid"]}
    dependent["metadata"]["ownerReferences"] = [owner]
    try:
        create_dependent(api, request.namespace, dependent)
    except ApiError as error:
        api.delete(JOBS, request.namespace, request.name, meta["uid"])
        if error.status == 404 and request.settings.via == KUBEFLOW:
            served = f"{TENSORBOARDS.kind} ({TENSORBOARDS.api})"
            raise ApiError(f"the cluster serves no {served}; remove `via`", 404) from error
        raise
    return address or service_url(api, request.namespace, request.name, request.port)


def service_url(api: Api, namespace: str, name: str, port: str = "http") -> str:
    """Return the address of a Service: inside of this pod's cluster, else through the API server."""
    if api.access.in_pod:
        return f"http://{name}.{namespace}.svc/"
    return api.access.server + proxy_path(namespace, name, port)


def proxy_path(namespace: str, name: str, port: str = "http") -> str:
    """Return the path by which the API server forwards requests to a Service."""
    return SERVICES.path(namespace, f"{name}:{port}", "proxy/")


def _created(api: Api, request: TensorBoardRequest, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the Job, after it was created or adopted."""
    give_up = time.monotonic() + _DELETION_SECONDS
    while True:
        try:
            return api.create(JOBS, request.namespace, manifest)
        except ApiError as error:
            if error.status != 409:
                raise
            refusal = error
        try:
            item = api.get(JOBS, request.namespace, request.name)
        except ApiError as error:
            if not error.missing:
                raise
            item = None
        if item and not has_ended(item) and "deletionTimestamp" not in item["metadata"]:
            return item
        if time.monotonic() > give_up:
            raise refusal
        if item and "deletionTimestamp" not in item["metadata"]:
            check_changeable(JOBS, item)
            api.delete(JOBS, request.namespace, request.name, item["metadata"]["uid"])
        if api.stopping.wait(_PAUSE_SECONDS):
            raise Stopped


def has_ended(item: Mapping[str, Any]) -> bool:
    """Tell whether the Job of a TensorBoard is complete or has failed."""
    return not true_conditions(item).keys().isdisjoint({"Complete", "Failed"})


def _extend(api: Api, item: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Give an adopted TensorBoard the later deadline of a further task, unless it is a demo."""
    if mark_of(item):
        return
    age = max(0.0, (api.server_time() or 0.0) - (seconds(item["metadata"].get("creationTimestamp")) or 0.0))
    wanted = round(age) + manifest["spec"]["activeDeadlineSeconds"] if age > 1 else 0
    if wanted > ((item.get("spec") or {}).get("activeDeadlineSeconds") or wanted) + 1:
        meta = item["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "spec": {"activeDeadlineSeconds": wanted}}
        api.patch(JOBS, meta["namespace"], meta["name"], patch)
