"""A schedule as a `Schedule` object in a ConfigMap. The janitor keeps its rules: it creates the Workflow of each date.

Only the janitor decides by the state of earlier runs: a CronWorkflow starts a run because of the time alone.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.engines.argo.cronjob import FILE
from tfsteps.engines.argo.cronworkflow import NAME_LENGTH
from tfsteps.engines.argo.scheduled_run import run_spec
from tfsteps.json_errors import NOT_READABLE
from tfsteps.schedule.parse import from_plain
from tfsteps.schedule.rules import RuleState
from tfsteps.schedule.types import Schedule

__all__ = ["ACCEPTED", "NAME_LENGTH", "PAUSED", "SELECTOR", "STATE", "config_map", "is_schedule", "read", "state_of"]

SCHEDULE_FILE = "schedule.json"
"""Key of the ConfigMap that holds the Schedule; `cronjob.FILE` is that of the Workflow."""
VERSION, KIND = "tfsteps.dev/v1", "Schedule"
PAUSED, STATE, ACCEPTED = "tfsteps.dev/paused", "tfsteps.dev/schedule-state", "tfsteps.dev/accepted-until"
"""Annotations of the ConfigMap: `true` = no run starts; what was decided, as JSON, which the janitor writes; the time
up to which a failed run does not keep the next date waiting, in seconds since the epoch."""
_LABELS = {"app.kubernetes.io/part-of": "tfsteps", "app.kubernetes.io/component": "schedule"}
SELECTOR = ",".join(f"{key}={value}" for key, value in _LABELS.items())
"""Selects the ConfigMaps that hold a Schedule."""


class _ScheduleObject(msgspec.Struct, frozen=True, rename="camel"):
    """The Schedule object. Fields of later versions make it another version, so unknown fields are refused."""

    api_version: str
    kind: str
    spec: dict[str, Any]


def config_map(schedule: Schedule, workflow: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the ConfigMap of a schedule of runs of `workflow`. SpecError as `run_spec`.

    Args:
        schedule: The schedule.
        workflow: The Workflow object; its labels and annotations become those of each run.
        name: The ConfigMap's name, of at most `NAME_LENGTH` characters.
    """
    namespace = {key: value for key, value in workflow["metadata"].items() if key == "namespace"}
    defaults = msgspec.to_builtins(Schedule())
    plain = {field: value for field, value in msgspec.to_builtins(schedule).items() if value != defaults[field]}
    if "history" in plain:
        plain["history"] = {outcome: count for outcome, count in plain["history"].items() if count is not None}
    contents = {
        SCHEDULE_FILE: {"apiVersion": VERSION, "kind": KIND, "spec": plain},
        FILE: {**workflow, "spec": run_spec(schedule, workflow)},
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": name, **_LABELS}, **namespace},
        "data": {key: msgspec.json.encode(value).decode() for key, value in contents.items()},
    }


def is_schedule(item: Mapping[str, Any]) -> bool:
    """Tell whether a ConfigMap is labelled as one that holds a Schedule."""
    return _LABELS.items() <= (item["metadata"].get("labels") or {}).items()


def read(item: Mapping[str, Any]) -> tuple[Schedule, dict[str, Any]]:
    """Return the schedule in a ConfigMap, and the Workflow of its runs.

    Raises:
        ValueError: It is not valid, or of another version.
        SpecError: The schedule has problems.
    """
    data = item.get("data") or {}
    try:
        described = typed_json.decode(data.get(SCHEDULE_FILE, ""), _ScheduleObject)
        workflow: dict[str, Any] = typed_json.decode(data.get(FILE, ""), dict[str, Any])
    except NOT_READABLE as error:
        raise ValueError(f"{SCHEDULE_FILE} or {FILE} is not valid: {error}") from error
    if (described.api_version, described.kind) != (VERSION, KIND):
        version = f"{described.api_version} {described.kind}"
        raise ValueError(f"{SCHEDULE_FILE} is a {version}, not a {VERSION} {KIND}: use the janitor of that version")
    if not all(isinstance(workflow.get(key), dict) for key in ("metadata", "spec")):
        raise ValueError(f"{FILE} is not a Workflow")
    return from_plain(described.spec, SCHEDULE_FILE), workflow


def state_of(item: Mapping[str, Any]) -> RuleState | None:
    """Return what was decided of a schedule; None = nothing yet. ValueError if that cannot be read."""
    text = (item["metadata"].get("annotations") or {}).get(STATE)
    try:
        return typed_json.decode(text, RuleState) if text is not None else None
    except NOT_READABLE as error:
        raise ValueError(f"the annotation {STATE} cannot be read: {error}") from error
