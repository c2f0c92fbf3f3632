"""What Kubernetes must allow the launchers of a job system: the rules of their Role, from the system's own kinds."""

from collections.abc import Iterable, Iterator
from typing import Any

from tfsteps import spec
from tfsteps.spec import TrainingJob
from tfsteps.systems import registry
from tfsteps.systems.capabilities import Level
from tfsteps.systems.features import FEATURES
from tfsteps.systems.kubernetes.permissions import OPT_IN, Permission, needed, optional

EXAMPLE = {
    "name": "mnist",
    "image": "registry.acme.org/vision/mnist:1",
    "command": ["python", "train.py"],
    "roles": {"worker": {}},
}


def example_job(system: str, feature: str | None) -> TrainingJob:
    """Return `EXAMPLE` with the fields, and the options of the system, that ask for a feature; None = for none."""
    fields = {} if feature is None else dict(FEATURES[feature].job)
    if feature == "created_suspended" and registry.capabilities_of(system)[feature].level is not Level.REFUSED:
        fields["systems"] = {system: {"suspend": True}}
    return spec.from_plain({**EXAMPLE, **fields}, "example", registry.options())


def permissions(system: str, opt_in: Iterable[str] = ()) -> Iterator[Permission]:
    """Yield what a launcher needs for every job that the system accepts; one may come several times.

    Args:
        system: Name of the job system.
        opt_in: Names of `OPT_IN`, for what a launcher need not be able to do.

    Raises:
        LaunchError: There is no such system, or its jobs are no Kubernetes objects.
    """
    for kind in registry.kinds_of(system):
        for feature in (None, *FEATURES):
            job = example_job(system, feature)
            if not kind.spec_problems(job):
                yield from needed(kind.resource, job, kind.permissions(job))
                yield from optional(job)
    for name in opt_in:
        yield from OPT_IN[name]


def rules(permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """Return the rules of a Role that grant some permissions: one for each kind of object, verbs in order."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for permission in permissions:
        verbs.setdefault((permission.group, permission.plural), set()).add(permission.verb)
    return [
        {"apiGroups": [group], "resources": [plural], "verbs": sorted(names)}
        for (group, plural), names in verbs.items()
    ]


def role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the Role of that name."""
    return {"apiVersion": _API, "kind": "Role", "metadata": _metadata(name), "rules": rules}


def role_binding(name: str, namespace: str, service_account: str) -> dict[str, Any]:
    """Return the RoleBinding that gives the Role of that name to a ServiceAccount."""
    return {
        "apiVersion": _API,
        "kind": "RoleBinding",
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": service_account, "namespace": namespace}],
    }


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "labels": {"app.kubernetes.io/part-of": "tfsteps"}}


_GROUP = "rbac.authorization.k8s.io"
_API = f"{_GROUP}/v1"
