"""The ServiceAccount that the cases' launchers run as: it may do what manifests/ grants for the job system, no more."""

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import yaml

from tfsteps.kube.client import Api
from tfsteps.kube.resource import Resource

_MANIFESTS = pathlib.Path(__file__).parents[2] / "manifests"
_ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount")
_ROLES = Resource("rbac.authorization.k8s.io/v1", "roles", "Role")
_BINDINGS = Resource("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
_NAME = "launcher"


def kubeconfig(api: Api, namespace: str, system: str, file: pathlib.Path) -> pathlib.Path:
    """Make the account in a namespace, and write a kubeconfig of it to `file`."""
    metadata = {"metadata": {"name": _NAME}}
    api.create(_ACCOUNTS, namespace, metadata)
    # One Role of all rules: permissions add up, and each object costs every case five requests.
    api.create(_ROLES, namespace, {**metadata, "rules": [rule for role in _roles(system) for rule in role["rules"]]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": _NAME}
    subject = {"kind": "ServiceAccount", "name": _NAME, "namespace": namespace}
    api.create(_BINDINGS, namespace, {**metadata, "roleRef": reference, "subjects": [subject]})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.request("POST", _ACCOUNTS.path(namespace, _NAME, "token"), {}, request)["status"]["token"]
    config = yaml.safe_load(pathlib.Path(os.environ["KUBECONFIG"]).read_text())
    context = next(item["context"] for item in config["contexts"] if item["name"] == config["current-context"])
    config["users"] = [{"name": context["user"], "user": {"token": token}}]
    file.write_text(json.dumps(config))
    return file


def _roles(system: str) -> Iterator[dict[str, Any]]:
    for pattern in ("base/*-role.yaml", f"systems/{system}/*-role.yaml", "optional/*/*-role.yaml"):
        yield from (yaml.safe_load(file.read_text()) for file in sorted(_MANIFESTS.glob(pattern)))
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    yield {"metadata": {"name": "secrets"}, "rules": [rule]}  # manifests/ leave it to others
