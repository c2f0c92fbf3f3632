"""Checks whether a job's pods can fit the quotas of their namespace if nothing else runs there. Pure.

Only the containers' resources are summed. Init containers and a runtime's overhead add to them, so a violation is
certain.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from tfsteps.spec import RoleName
from tfsteps.systems.kubernetes.job_kind import RoleSpec

_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?")
_FACTORS = {
    **{unit: Decimal(1000) ** power for power, unit in enumerate(["n", "u", "m", "", *"kMGTPE"], -3)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
_REQUIRED = {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
_PODS = {"pods", "count/pods"}
_Amounts = Mapping[str, Decimal]
_Roles = Mapping[RoleName, RoleSpec]


class _Container(msgspec.Struct, frozen=True):
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


_Containers = Mapping[RoleName, list[_Container]]


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
    containers = {name: _completed(role.template, defaults) for name, role in roles.items()}
    for name, rule in rules:
        for role, role_containers in containers.items():
            for wrong in _outside(rule, role_containers):
                yield f"LimitRange {name}: {wrong}: correct the `resources` of {role}"
    for item in quotas:
        spec = item["spec"]
        if not (spec.get("scopes") or spec.get("scopeSelector")):
            for wrong in _over(spec.get("hard") or {}, roles, containers):
                yield f"ResourceQuota {item['metadata']['name']}: {wrong}"


def _completed(template: Mapping[str, Any], defaults: list[Mapping[str, Any]]) -> list[_Container]:
    """Return the containers of a pod as the API server will complete them."""
    limits = {key: value for rule in defaults for key, value in rule.get("default", {}).items()}
    requests = {key: value for rule in defaults for key, value in rule.get("defaultRequest", {}).items()}
    declared = [container.get("resources") or {} for container in template["spec"].get("containers") or []]
    return [
        _Container(
            requests=_amounts({**requests, **resources.get("limits", {}), **resources.get("requests", {})}),
            limits=_amounts({**limits, **resources.get("limits", {})}),
        )
        for resources in declared
    ]


def _amounts(quantities: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return quantities as numbers; invalid ones are skipped, because the API server reports them better."""
    return {name: quantity(str(text)) for name, text in quantities.items() if _QUANTITY.fullmatch(str(text))}


def _outside(rule: Mapping[str, Any], containers: list[_Container]) -> Iterator[str]:
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
            if any(name not in container.charged for container in role_containers)
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
