"""What a schedule changes in the Workflow of each run."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.schedule.types import Schedule
from tfsteps.spec.problems import SpecError, problem, shown
from tfsteps.spec.spelling import nearest

_PODS = ("container", "script", "resource", "data", "http", "plugin")  # a containerSet has retries of its own


def run_spec(schedule: Schedule, workflow: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a run of `workflow`.

    Raises:
        SpecError: `skip` names a step that the Workflow does not have, or `retry` finds no template to apply to.
    """
    spec: dict[str, Any] = copy.deepcopy(dict(workflow["spec"]))
    if schedule.parallelism is not None:
        spec["parallelism"] = schedule.parallelism
    if schedule.timeout is not None:
        spec["activeDeadlineSeconds"] = int(schedule.timeout)
    templates = spec.get("templates") or []
    if schedule.retry is not None:
        pods = [template for template in templates if any(template.get(kind) is not None for kind in _PODS)]
        if not pods:
            wrong = "has no effect: the templates of the steps are not in this Workflow"
            fix = "Set `retryStrategy` in their WorkflowTemplate, or leave `retry` out"
            raise SpecError([problem(("retry",), wrong, fix, str(schedule.retry))], "schedule")
        for template in pods:
            template["retryStrategy"] = {**(template.get("retryStrategy") or {}), "limit": schedule.retry}
    steps = list(_steps(templates))
    for index, name in enumerate(schedule.skip):
        named = [step for step in steps if step.get("name") == name]
        if not named:
            known = list(dict.fromkeys(str(step.get("name")) for step in steps))
            guess = nearest(name, known)
            fix = f"Write `{guess}`" if guess else f"The steps are: {', '.join(known) or 'none'}"
            raise SpecError([problem(("skip", index), "is not a step of the Workflow", fix, shown(name))], "schedule")
        for step in named:
            step["when"] = "false"
    return spec


def _steps(templates: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for template in templates:
        yield from (template.get("dag") or {}).get("tasks") or []
        for group in template.get("steps") or []:
            yield from group or []
