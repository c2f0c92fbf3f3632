"""The workload of a TensorBoard, as both controllers make it: a Deployment and a Service."""

from collections.abc import Mapping
from typing import Any

from tests.controllers.loop import ensure
from tfsteps.kube.client import Api
from tfsteps.kube.resource import Resource

_DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment")
SERVICES = Resource("v1", "services", "Service")
_PORT = 6006


def serve(
    api: Api, namespace: str, meta: Mapping[str, Any], container: Mapping[str, Any], *, volumes: Any, service_type: str
) -> None:
    """Make both, with port 80 of the Service to the TensorBoard.

    Args:
        api: The cluster.
        namespace: Where.
        meta: Name, labels and owner of both; the labels select the pod.
        container: Image, command and mounts.
        volumes: Of the pod.
        service_type: Of the Service.
    """
    labels = meta["labels"]
    pod = {
        "containers": [{"name": "tensorboard", "ports": [{"containerPort": _PORT}], **container}],
        "volumes": volumes,
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    ensure(api, _DEPLOYMENTS, namespace, {"metadata": meta, "spec": spec})
    ports = [{"name": "tb-port", "port": 80, "targetPort": _PORT}]
    ensure(
        api, SERVICES, namespace, {"metadata": meta, "spec": {"type": service_type, "selector": labels, "ports": ports}}
    )
