"""How long Argo keeps a run: what the platform settings of its namespace say, where its Workflow says nothing."""

from collections.abc import Mapping
from typing import Any

from tfsteps.console.messages import warn
from tfsteps.settings.find import Found
from tfsteps.settings.types import RunSettings

NO_SETTINGS = RunSettings()
_POD_GC = {"success": "OnPodSuccess", "completion": "OnPodCompletion"}


def runs_settings(found: Found, namespace: str, manifest: Mapping[str, Any]) -> RunSettings:
    """Return what the settings say of runs in a namespace; nothing if they may not be read.

    A warning says so, unless the Workflow or CronWorkflow sets all that the settings could.
    """
    spec = manifest["spec"].get("workflowSpec", manifest["spec"])
    if found.warning and not {"ttlStrategy", "podGC"} <= spec.keys():
        warn(f"the Workflow gets no ttlStrategy and podGC by the platform settings: {found.warning}")
    layers = [layer.runs for _, layer in found.settings.layers(namespace)] if found.settings else []
    values = {
        field: next((value for layer in reversed(layers) if (value := getattr(layer, field)) is not None), None)
        for field in RunSettings.__struct_fields__
    }
    return RunSettings(**values)


def retained(manifest: Mapping[str, Any], runs: RunSettings) -> dict[str, Any]:
    """Return a Workflow or CronWorkflow with `ttlStrategy` and `podGC`, unless it has them."""
    inside = ("spec",) if manifest["kind"] == "Workflow" else ("spec", "workflowSpec")
    times = {"secondsAfterSuccess": runs.keep_succeeded, "secondsAfterFailure": runs.keep_failed}
    ttl = {field: round(seconds) for field, seconds in times.items() if seconds is not None}
    added = {"ttlStrategy": ttl, "podGC": {"strategy": _POD_GC[runs.delete_pods]} if runs.delete_pods else {}}

    def with_added(value: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        if path:
            return {**value, path[0]: with_added(value[path[0]], path[1:])}
        return {**{field: part for field, part in added.items() if part}, **value}

    return with_added(manifest, inside)
