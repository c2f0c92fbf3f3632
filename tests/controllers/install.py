"""Puts the test controllers on a cluster: their CRDs, an account that may do all, a Deployment for each."""

import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from tests.cluster import images
from tests.support.waiting import until
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource

NAMESPACE = "tfsteps-controllers"
_HERE = pathlib.Path(__file__).parent
_ROOT = _HERE.parents[1]
_CRDS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition")
_NAMESPACES = Resource("v1", "namespaces", "Namespace")
_ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount")
_BINDINGS = Resource("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding")
_DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment")


def up(names: Iterable[str]) -> None:
    """Install controllers, or bring them to what is written here, and wait until they run."""
    api, image = Api(access.find()), images.provide_own("controllers", _HERE / "Dockerfile", _ROOT)
    for item in _definitions():
        _apply(api, _CRDS, "", item)
        until(lambda item=item: _served(api, item))
    account = {"kind": "ServiceAccount", "name": NAMESPACE, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    _apply(api, _NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    _apply(api, _ACCOUNTS, NAMESPACE, {"metadata": {"name": NAMESPACE}})
    _apply(api, _BINDINGS, "", {"metadata": {"name": NAMESPACE}, "subjects": [account], "roleRef": role})
    for name in names:
        _apply(api, _DEPLOYMENTS, NAMESPACE, _deployment(name, image))
        until(lambda name=name: _available(api, name))


def down() -> None:
    """Take away all that `up` has installed, and with the CRDs all jobs."""
    api = Api(access.find())
    for resource, name in [
        *((_CRDS, item["metadata"]["name"]) for item in _definitions()),
        (_BINDINGS, NAMESPACE),
        (_NAMESPACES, NAMESPACE),
    ]:
        try:
            api.request("DELETE", resource.path("", name))
        except ApiError as error:
            if not error.missing:
                raise


def _definitions() -> Iterator[dict[str, Any]]:
    for file in sorted((_HERE / "crds").glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text())


def _deployment(name: str, image: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "controller", "image": image, "imagePullPolicy": "IfNotPresent", "args": [name]}
    pod = {"serviceAccountName": NAMESPACE, "terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "strategy": {"type": "Recreate"}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def _served(api: Api, item: dict[str, Any]) -> bool:
    """Tell whether the API server knows the kind of a CRD already."""
    spec = item["spec"]
    resource = Resource(
        f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["plural"], spec["names"]["kind"]
    )
    try:
        api.list(resource, "")
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


def _available(api: Api, name: str) -> bool:
    deployment = api.get(_DEPLOYMENTS, NAMESPACE, name)
    status, generation = deployment.get("status", {}), deployment["metadata"]["generation"]
    whole = status.get("updatedReplicas") == status.get("availableReplicas") == 1
    return whole and status.get("observedGeneration") == generation


def _apply(api: Api, resource: Resource, namespace: str, body: dict[str, Any]) -> None:
    whole = {**body, "apiVersion": resource.api, "kind": resource.kind}
    try:
        api.create(resource, namespace, whole)
    except ApiError as error:
        if error.status != 409:
            raise
        api.patch(resource, namespace, body["metadata"]["name"], whole)
