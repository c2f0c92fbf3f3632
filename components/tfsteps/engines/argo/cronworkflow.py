"""A schedule as an Argo CronWorkflow. Requires Argo Workflows 3.6 or newer."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.engines.argo.scheduled_run import run_spec
from tfsteps.schedule.fires import fire_times
from tfsteps.schedule.parse import from_plain
from tfsteps.schedule.types import Schedule, utc
from tfsteps.spec.problems import Problem, SpecError, problem

NAME = "Argo Workflows"
NAME_LENGTH = 52  # Argo appends the time to the name of each run, which must be a valid label value
_DATE = re.compile(r"(?:\{\{= )?now\(\) >= date\('([^']*)'\)(?: \}\})?")  # as `cron_workflow` writes it


def schedule_problems(schedule: Schedule) -> list[Problem]:
    """Return a problem for each field of `schedule` that a CronWorkflow cannot express."""
    return list(_problems(schedule))


def fires(schedule: Schedule, now: float) -> Iterator[int]:
    """Yield the start times of the runs, in seconds since the epoch."""
    return fire_times(schedule, now)


def cron_workflow(schedule: Schedule, workflow: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the CronWorkflow that runs a Workflow; call it only for a schedule without problems.

    Args:
        schedule: The schedule.
        workflow: The Workflow object; its labels and annotations become those of each run.
        name: The CronWorkflow's name.
    """
    cron = schedule.expression
    metadata = {key: value for key, value in workflow["metadata"].items() if key in {"labels", "annotations"}}
    namespace = {key: value for key, value in workflow["metadata"].items() if key == "namespace"}
    spec: dict[str, Any] = {
        "schedules": [cron.text() if cron else f"@every {int(schedule.interval or 0)}s"],
        **({"timezone": schedule.timezone} if cron else {}),
        **policies(schedule),
        # Argo evaluates both when a run is due, some milliseconds after its start time.
        **({"when": f"{{{{= now() >= {_date(schedule.starts)} }}}}"} if schedule.starts is not None else {}),
        **({"stopStrategy": {"expression": f"now() >= {_date(schedule.ends)}"}} if schedule.ends is not None else {}),
        **({"workflowMetadata": metadata} if metadata else {}),
        "workflowSpec": run_spec(schedule, workflow),
    }
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": name, **namespace},
        "spec": spec,
    }


def schedule_of(spec: Mapping[str, Any]) -> Schedule | None:
    """Return when a CronWorkflow or a CronJob fires, as its `spec` says; None = somebody wrote what cannot be read."""
    dates = {"start": spec.get("when"), "end": (spec.get("stopStrategy") or {}).get("expression")}
    matches = {field: _DATE.fullmatch(text) for field, text in dates.items() if text}
    texts = spec.get("schedules") or [spec.get("schedule") or ""]
    zone = spec.get("timezone") or spec.get("timeZone")  # without one, that of the controller counts
    if len(texts) != 1 or not all(matches.values()) or not (zone or texts[0].startswith("@every ")):
        return None
    fields = {field: match[1] for field, match in matches.items() if match}
    when = {"cron": texts[0], "timezone": zone} if zone else {"interval": texts[0].removeprefix("@every ")}
    try:
        return from_plain({**when, **fields})
    except SpecError:
        return None


def policies(schedule: Schedule) -> dict[str, Any]:
    """Return the fields that CronWorkflows and CronJobs have in common: concurrency, deadline and history."""
    limits = {"successful": schedule.history.successful, "failed": schedule.history.failed}
    deadline = schedule.starting_deadline
    return {
        "concurrencyPolicy": schedule.concurrency.capitalize(),
        **({"startingDeadlineSeconds": int(deadline)} if deadline else {}),
        **{f"{outcome}JobsHistoryLimit": count for outcome, count in limits.items() if count is not None},
    }


def rules(schedule: Schedule, name: str) -> Iterator[Problem]:
    """Yield a problem for each rule that only the janitor keeps; `name` is the scheduler that does not."""
    instead = "Use `--scheduler janitor`, which keeps these rules"
    if schedule.catch_up:
        wrong = f"is not supported by {name}, which starts at most the newest missed run"
        fix = f"{instead}; or `starting_deadline: 1h`: the newest run may start up to an hour late"
        yield problem(("catch_up",), wrong, fix, "true")
    if schedule.depends_on_past:
        wrong = f"is not supported by {name}, which does not look at the end of the last run"
        yield problem(("depends_on_past",), wrong, instead, "true")
    if schedule.max_active_runs is not None:
        wrong = f"is not supported by {name}, which starts one run at once or all that are due"
        fix = f"{instead}; or `concurrency: forbid` for one"
        yield problem(("max_active_runs",), wrong, fix, str(schedule.max_active_runs))
    if schedule.expired_limit is not None:
        wrong = f"is not supported by {name}, which replaces a run by one"
        yield problem(("expired_limit",), wrong, instead, str(schedule.expired_limit))


def _problems(schedule: Schedule) -> Iterator[Problem]:
    yield from rules(schedule, NAME)
    if schedule.interval and schedule.start:
        wrong = f"has no effect on an interval: {NAME} counts it from the creation of the schedule"
        fix = "Use `--scheduler janitor`, write `cron` instead of `interval`, or leave `start` out"
        yield problem(("start",), wrong, fix, schedule.start)


def _date(instant: int) -> str:
    return f"date('{utc(instant)}')"
