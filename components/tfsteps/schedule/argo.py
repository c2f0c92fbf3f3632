"""A schedule as an Argo CronWorkflow. Requires Argo Workflows 3.6 or newer."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.schedule.fires import fire_times
from tfsteps.schedule.parse import from_plain
from tfsteps.schedule.types import Schedule, utc
from tfsteps.spec.problems import Problem, SpecError, problem

NAME = "Argo Workflows"
NAME_LENGTH = 52  # Argo appends the time to the name of each run, which must be a valid label value
_DATE = re.compile(r"(?:\{\{= )?now\(\) >= date\('([^']*)'\)(?: \}\})?")  # as `cron_workflow` writes it


def problems(schedule: Schedule) -> list[Problem]:
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
        "workflowSpec": {**workflow["spec"], **run_limits(schedule)},
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


def run_limits(schedule: Schedule) -> dict[str, int]:
    """Return the fields of a Workflow's spec that limit each run: its steps at once, and its time in seconds."""
    timeout = schedule.timeout
    return {
        **({"parallelism": schedule.parallelism} if schedule.parallelism is not None else {}),
        **({"activeDeadlineSeconds": int(timeout)} if timeout is not None else {}),
    }


def max_active_runs(schedule: Schedule, name: str) -> Iterator[Problem]:
    """Yield a problem if `schedule` limits how many runs overlap; the scheduler `name` starts one, or all."""
    if schedule.max_active_runs is not None:
        wrong = f"is not supported by {name}, which starts one run at once or all that are due"
        fix = "Write `concurrency: forbid` for one, or leave it out. Kubeflow Pipelines has a limit of up to 10"
        yield problem(("max_active_runs",), wrong, fix, str(schedule.max_active_runs))


def catch_up(schedule: Schedule, name: str) -> Iterator[Problem]:
    """Yield a problem if `schedule` asks for all missed runs; the scheduler `name` starts at most the newest one."""
    if schedule.catch_up:
        fix = (
            "Leave it out; with `starting_deadline: 1h` the newest run may start up to an hour late. "
            "Kubeflow Pipelines starts all missed runs"
        )
        wrong = f"is not supported by {name}, which starts at most the newest missed run"
        yield problem(("catch_up",), wrong, fix, "true")


def _problems(schedule: Schedule) -> Iterator[Problem]:
    yield from catch_up(schedule, NAME)
    yield from max_active_runs(schedule, NAME)
    if schedule.interval and schedule.start:
        wrong = f"has no effect on an interval: {NAME} counts it from the creation of the schedule"
        yield problem(("start",), wrong, "Write `cron` instead of `interval`, or leave `start` out", schedule.start)


def _date(instant: int) -> str:
    return f"date('{utc(instant)}')"
