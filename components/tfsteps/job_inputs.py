"""From the inputs of a train step to a plain job description, for `spec.from_plain`."""

import copy
from collections.abc import Mapping
from typing import Any

_FIELDS = ("name", "image", "command", "args", "restart", "backoff_limit")
_RESOURCES = ("cpu", "memory", "gpu")
_ROLES = {"chief": "chief", "workers": "worker", "ps": "ps", "evaluator": "evaluator"}


def plain_job(inputs: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the input `spec`, what `base` says laid over it, and each field's own input over both.

    Args:
        inputs: By name. One that is missing, None or empty text says nothing.
        base: A partial job: what the engine knows about this task.
    """
    given = {name: value for name, value in inputs.items() if value is not None and value != ""}
    job: dict[str, Any] = merged(given.get("spec", {}), base or {})
    own: dict[str, Any] = {name: given[name] for name in _FIELDS if name in given}
    own["resources"] = {name: given[name] for name in _RESOURCES if name in given}
    own["env"] = given.get("env", {})
    own["deadlines"] = given.get("deadlines", {})
    own["outputs"] = {"metrics": given.get("metric_tags", {})}
    own["roles"] = {role: {"replicas": given[name]} for name, role in _ROLES.items() if given.get(name)}
    job = merged(job, _without_empty(own))
    for name, role in _ROLES.items():
        if given.get(name) == 0 and isinstance(job.get("roles"), dict):
            job["roles"].pop(role, None)
    return job


def merged(under: Any, over: Any) -> Any:
    """Return `over` laid over `under`: mappings key by key, anything else as a whole. Neither is changed."""
    if not (isinstance(under, Mapping) and isinstance(over, Mapping)):
        return copy.deepcopy(over)
    result = {key: copy.deepcopy(value) for key, value in under.items()}
    for key, value in over.items():
        result[key] = merged(result.get(key, {}), value)
    return result


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the mappings that hold nothing; an empty list is an answer and stays."""
    kept = {key: _without_empty(value) if key == "outputs" else value for key, value in fields.items()}
    return {key: value for key, value in kept.items() if value != {}}
