"""The controller of T9k's TensorBoard objects: a workload for each, and its address in the status."""

from collections.abc import Mapping
from typing import Any

from tests.controllers import board
from tests.controllers.loop import Loop, itself, reference
from tests.controllers.t9k import BOARDS
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError


def run(api: Api) -> None:
    """Look after all TensorBoards of the cluster, for ever."""
    loop = Loop(lambda namespace, name: _reconcile(api, namespace, name))
    loop.watch(api, BOARDS, itself)
    loop.run()


def _reconcile(api: Api, namespace: str, name: str) -> None:
    try:
        item = api.get(BOARDS, namespace, name)
    except ApiError as error:
        if error.missing:
            return
        raise
    if "deletionTimestamp" in item["metadata"] or item.get("status"):
        return
    workload = f"{name}-tensorboard"
    meta = {"name": workload, "labels": {"app": workload}, "ownerReferences": [reference(item)]}
    claims = _claims(item["spec"])
    folders = [f"/logs/{claim}/{path}".rstrip("/.") for claim, paths in claims.items() for path in paths]
    container = {
        "image": item["spec"]["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["tensorboard", "--host", "0.0.0.0", "--logdir", folders[0] if len(folders) == 1 else "/logs"],
        "volumeMounts": [{"name": claim, "mountPath": f"/logs/{claim}"} for claim in claims],
    }
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    board.serve(api, namespace, meta, container, volumes=volumes, service_type="ClusterIP")
    status = {"phase": "Running", "url": f"http://{workload}.{namespace}.svc/", "conditions": []}
    api.request("PATCH", BOARDS.path(namespace, name, "status"), {}, {"status": status})


def _claims(spec: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the folders of each claim: of `logDir`, or of the older `trainingLogFilesets`."""
    folders = {item["name"]: item.get("subPath") or [""] for item in (spec.get("logDir") or {}).get("pvc") or []}
    for text in spec.get("trainingLogFilesets") or []:
        kind, _, rest = text.removeprefix("t9k://").partition("/")
        if kind == "pvc":
            claim, _, path = rest.partition("/")
            folders.setdefault(claim, []).append(path)
    return folders
