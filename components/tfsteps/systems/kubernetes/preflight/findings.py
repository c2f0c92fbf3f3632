"""Finds out, before anything is created, why a job cannot run on this cluster.

Only a certain refusal is reported. Checks that are forbidden or fail for now report nothing: the launch will show it.
Quotas are checked as if nothing else ran in the namespace. Only the containers' resources are summed: init containers
and a runtime's overhead add to them, so a violation is certain.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.spec import RoleName, TrainingJob
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.job_kind import JobKind, RenderedJob, RoleSpec, create
from tfsteps.systems.kubernetes.permissions import Permission, denied, how_to_grant, needed
from tfsteps.systems.kubernetes.preflight.references import Reference, references

if TYPE_CHECKING:
    from tfsteps.kube.client import Api

_QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota")
_RANGES = Resource("v1", "limitranges", "LimitRange")
_OPERATORS = {  # values of `managedBy` that mean the operator of this cluster
    "jobset.sigs.k8s.io/jobset-controller",
    "kubeflow.org/training-operator",
    "kubernetes.io/job-controller",
    "trainer.kubeflow.org/trainjob-controller",
}
_UNDECIDED = {401, 409}  # 409: it exists already, which `create` handles
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?")
_FACTORS = {
    **{unit: Decimal(1000) ** power for power, unit in enumerate(["n", "u", "m", "", *"kMGTPE"], -3)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
_REQUIRED = {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
_PODS = {"pods", "count/pods"}
_Amounts = Mapping[str, Decimal]
_Roles = Mapping[RoleName, RoleSpec]


def findings(api: "Api", kind: JobKind, job: TrainingJob, rendered: RenderedJob) -> list[str]:
    """Return why a job cannot be created, or why its pods can never start; each finding says what to do.

    Nothing is created, and each request is sent once. Empty = no problem is known.
    """
    namespace, roles = rendered.namespace, kind.roles(rendered.observed())
    # The launcher's own pod tells who owns the job, and after SIGTERM whether the job goes on.
    own_pod = [Permission("get", PODS)] if api.access.in_pod else []
    forbidden = denied(api, namespace, needed(kind.resource, job, [*kind.permissions(job), *own_pod]))
    problems = []
    if forbidden:
        what = ", ".join(map(str, forbidden))
        how = how_to_grant(api, kind.name, namespace)
        problems.append(f"job system {kind.name}: in namespace {namespace} this launcher may not: {what}; {how}")
    if not any(permission.verb == "create" for permission in forbidden):  # else the dry run fails for that reason
        problems += _refused(api, kind, job, rendered)
    created = {(part["kind"], part["metadata"]["name"]) for part in rendered.dependents}
    for reference in references(rendered.manifest, roles.values()):
        if (reference.resource.kind, reference.name) not in created:
            problems += _missing(api, namespace, reference)
    problems += quota_violations(roles, _listed(api, _QUOTAS, namespace), _listed(api, _RANGES, namespace))
    return problems


def _refused(api: "Api", kind: JobKind, job: TrainingJob, rendered: RenderedJob) -> Iterator[str]:
    """Yield why the API server or a webhook refuses the object, or gives it to another cluster, by a dry run."""
    resource, namespace = kind.resource, rendered.namespace
    try:
        manager = _other_manager(create(api, kind, job, rendered, dry_run=True, once=True))
        if manager:
            yield (
                f"a webhook of the cluster gives the {resource.kind} to {manager} (field `managedBy`), which runs it "
                f"on another cluster; launchers follow the pods of this one only: name a `queue` whose jobs stay here"
            )
    except LaunchError as error:
        yield str(error)
    except ApiError as error:
        unsupported = "does not support dry run" in str(error)
        if error.missing:
            yield f"namespace {namespace} does not exist: create it, or name another"
        elif not (error.unavailable or error.status in _UNDECIDED or unsupported):
            why = kind.explain_rejection(rendered.manifest, str(error)) or error
            yield f"the cluster refuses the {resource.kind}: {why}"


def _other_manager(item: Mapping[str, Any]) -> str:
    """Return the controller that manages an object in place of its operator, as MultiKueue does; empty = none."""
    spec = item.get("spec") or {}
    manager = spec.get("managedBy") or (spec.get("runPolicy") or {}).get("managedBy")
    return "" if manager is None or manager in _OPERATORS else str(manager)


def _missing(api: "Api", namespace: str, reference: Reference) -> Iterator[str]:
    kind = reference.resource.kind
    where = f"{kind} {reference.name}" if reference.everywhere else f"{kind} {namespace}/{reference.name}"
    try:
        item = _get(api, namespace, reference)
    except ApiError as error:
        if error.missing:
            yield f"{where} is missing: create it, or correct its name"
        return
    keys = {**(item.get("data") or {}), **(item.get("binaryData") or {})}
    if reference.key and reference.key not in keys:
        yield f"{where} has no key {reference.key!r}: it has {', '.join(sorted(keys)) or 'none'}"


def _get(api: "Api", namespace: str, reference: Reference) -> dict[str, Any]:
    """Return the object, in the newest version of its API that the cluster serves. ApiError if it cannot be read."""
    *newer, last = (reference.resource, *reference.older)
    where = "" if reference.everywhere else namespace
    for resource in newer:
        try:
            return api.get(resource, where, reference.name, once=True)
        except ApiError as error:
            if error.status != 404 or error.missing:  # else this version is not served
                raise
    return api.get(last, where, reference.name, once=True)


def _listed(api: "Api", resource: Resource, namespace: str) -> Sequence[Mapping[str, Any]]:
    try:
        items: Sequence[Mapping[str, Any]] = api.list(resource, namespace, once=True)["items"] or []
    except ApiError:
        return []
    return items


class _ContainerResources(msgspec.Struct, frozen=True):
    """The resources of one container, with the namespace's defaults."""

    requests: _Amounts
    limits: _Amounts

    @property
    def charged(self) -> dict[str, Decimal]:
        """Each amount under every name by which a quota may count it."""
        return {
            **self.requests,
            **{f"requests.{name}": amount for name, amount in self.requests.items()},
            **{f"limits.{name}": amount for name, amount in self.limits.items()},
        }


_Containers = Mapping[RoleName, list[_ContainerResources]]


def quantity(text: str) -> Decimal:
    """Return a Kubernetes quantity as a number: `500m`, `4Gi`, `1e3`, `2`. ValueError if it is not one."""
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a quantity")
    return Decimal(match[1]) * _FACTORS[match[2] or ""]


def _text(amount: Decimal) -> str:
    """Return an amount as Kubernetes users write it: `3`, `0.5`, `4Gi`."""
    for unit in ("Ti", "Gi", "Mi"):
        if amount and amount % _FACTORS[unit] == 0:
            return f"{amount / _FACTORS[unit]:f}{unit}"
    return f"{amount.normalize():f}"


def quota_violations(
    roles: _Roles, quotas: Iterable[Mapping[str, Any]], ranges: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield violations that no empty namespace can avoid, and what to do about them.

    Args:
        roles: The job's roles.
        quotas: The namespace's ResourceQuota objects. Those with a scope are skipped: they may count other pods.
        ranges: Its LimitRange objects.
    """
    rules = [(item["metadata"]["name"], rule) for item in ranges for rule in item["spec"]["limits"]]
    defaults = [rule for _, rule in rules if rule["type"] == "Container"]
    containers = {name: _completed(role.template, [] if role.partial else defaults) for name, role in roles.items()}
    for name, rule in rules:
        for role, role_containers in containers.items():
            for wrong in _outside({**rule, "min": {}} if roles[role].partial else rule, role_containers):
                yield f"LimitRange {name}: {wrong}: correct the `resources` of {role}"
    for item in quotas:
        spec = item["spec"]
        if not (spec.get("scopes") or spec.get("scopeSelector")):
            for wrong in _over(spec.get("hard") or {}, roles, containers):
                yield f"ResourceQuota {item['metadata']['name']}: {wrong}"


def _completed(template: Mapping[str, Any], defaults: list[Mapping[str, Any]]) -> list[_ContainerResources]:
    """Return the containers of a pod as the API server will complete them."""
    limits = {key: value for rule in defaults for key, value in rule.get("default", {}).items()}
    requests = {key: value for rule in defaults for key, value in rule.get("defaultRequest", {}).items()}
    declared = [container.get("resources") or {} for container in template["spec"].get("containers") or []]
    return [
        _ContainerResources(
            requests=_amounts({**requests, **resources.get("limits", {}), **resources.get("requests", {})}),
            limits=_amounts({**limits, **resources.get("limits", {})}),
        )
        for resources in declared
    ]


def _amounts(quantities: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return quantities as numbers; invalid ones are skipped, because the API server reports them better."""
    return {name: quantity(str(text)) for name, text in quantities.items() if _QUANTITY.fullmatch(str(text))}


def _outside(rule: Mapping[str, Any], containers: list[_ContainerResources]) -> Iterator[str]:
    """Yield where a container, or for a rule for pods all containers of a pod, request too much or too little."""
    kind = rule["type"]
    groups = {"Container": [[container] for container in containers], "Pod": [containers]}
    for group in groups.get(kind, []):
        requests, limits = (
            _total(container.requests for container in group),
            _total(container.limits for container in group),
        )
        for name, text in rule.get("max", {}).items():
            asked = max(requests[name], limits[name])
            if asked > quantity(text):
                yield f"a {kind.lower()} may have at most {text} {name}, not {_text(asked)}"
        for name, text in rule.get("min", {}).items():
            if name in requests and requests[name] < quantity(text):
                yield f"a {kind.lower()} must ask for at least {text} {name}, not {_text(requests[name])}"


def _over(hard: Mapping[str, str], roles: _Roles, containers: _Containers) -> Iterator[str]:
    """Yield where all replicas together exceed an unused quota, or lack a value that the quota requires."""
    for name, text in hard.items():
        silent = [
            role
            for role, role_containers in containers.items()
            if not roles[role].partial and any(name not in container.charged for container in role_containers)
        ]
        if name in _REQUIRED and silent:
            yield f"it counts {name}, and {', '.join(silent)} has none: set it in `resources`"
        need = _needed(name, roles, containers)
        if need > quantity(text):
            yield f"all replicas together need {_text(need)} {name}, {text} is allowed: ask for less, or have it raised"


def _needed(name: str, roles: _Roles, containers: _Containers) -> Decimal:
    if name in _PODS:
        return Decimal(sum(role.replicas for role in roles.values()))
    amounts = (
        role.replicas * _total(container.charged for container in containers[key])[name] for key, role in roles.items()
    )
    return sum(amounts, Decimal(0))


def _total(amounts: Iterable[_Amounts]) -> defaultdict[str, Decimal]:
    total: defaultdict[str, Decimal] = defaultdict(Decimal)
    for container_amounts in amounts:
        for name, amount in container_amounts.items():
            total[name] += amount
    return total
