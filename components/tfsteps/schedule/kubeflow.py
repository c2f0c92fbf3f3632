"""A schedule as a recurring run of Kubeflow Pipelines: arguments for its client, or the object that it makes of them.

Its cron expressions have six fields, seconds first. Five are taken as well, and mean something else: they are never
written. One time zone holds for all of them, the server's CRON_SCHEDULE_TIMEZONE, which is UTC unless it was set.
"""

import zoneinfo
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.schedule.cron import Cron
from tfsteps.schedule.fires import fire_times
from tfsteps.schedule.types import Schedule, utc
from tfsteps.schedule.zones import fixed_offset, moved
from tfsteps.spec.problems import Problem, problem

NAME = "Kubeflow Pipelines"
MOST_AT_ONCE = 10
"""How many runs of a schedule may overlap at most; greater numbers are taken for this one."""


def problems(schedule: Schedule, now: float, server_timezone: str = "UTC") -> list[Problem]:
    """Return what a recurring run cannot express of `schedule`.

    Args:
        schedule: The schedule.
        now: Seconds since the epoch.
        server_timezone: What CRON_SCHEDULE_TIMEZONE of the server is.
    """
    return list(_problems(schedule, now, server_timezone))


def fires(schedule: Schedule, now: float, server_timezone: str = "UTC") -> Iterator[int]:
    """Yield when its runs start, in seconds since the epoch."""
    cron, zone = _there(schedule, now, server_timezone), zoneinfo.ZoneInfo(server_timezone)
    return fire_times(schedule, now, cron, zone, adjusts_midnight=False)


def recurring_run(schedule: Schedule, now: float, server_timezone: str = "UTC") -> dict[str, Any]:
    """Return the arguments of `kfp.Client().create_recurring_run` that say when; for a schedule without problems."""
    cron = _there(schedule, now, server_timezone)
    when = {"cron_expression": cron.with_seconds()} if cron else {"interval_second": int(schedule.interval or 0)}
    return {
        **when,
        **({"start_time": utc(schedule.origin(now))} if _has_start(schedule, now) else {}),
        **({"end_time": utc(schedule.ends - 1)} if schedule.ends is not None else {}),
        "max_concurrency": MOST_AT_ONCE if schedule.concurrency == "allow" else 1,
        "no_catchup": not schedule.catch_up,
    }


def scheduled_workflow(
    schedule: Schedule,
    now: float,
    *,
    name: str,
    experiment_id: str,
    pipeline_id: str,
    pipeline_version_id: str,
    parameters: Mapping[str, Any] | None = None,
    service_account: str = "",
    server_timezone: str = "UTC",
) -> dict[str, Any]:
    """Return the ScheduledWorkflow object for an uploaded pipeline; for a schedule without problems.

    Args:
        schedule: When.
        now: Seconds since the epoch.
        name: The object's name.
        experiment_id: Of the experiment that the runs belong to.
        pipeline_id: Of the pipeline.
        pipeline_version_id: Of its version.
        parameters: The pipeline's inputs.
        service_account: Of the runs; empty = the installation's default.
        server_timezone: As in `problems`.
    """
    recurring = recurring_run(schedule, now, server_timezone)
    names = {"start_time": "startTime", "end_time": "endTime", "cron_expression": "cron"}
    trigger = {
        there: recurring[here]
        for here, there in {**names, "interval_second": "intervalSecond"}.items()
        if here in recurring
    }
    values = [{"name": key, "value": msgspec.json.encode(value).decode()} for key, value in (parameters or {}).items()]
    return {
        "apiVersion": "kubeflow.org/v1beta1",
        "kind": "ScheduledWorkflow",
        "metadata": {"name": name},
        "spec": {
            "enabled": True,
            "maxConcurrency": recurring["max_concurrency"],
            "noCatchup": recurring["no_catchup"],
            "trigger": {"cronSchedule" if schedule.cron else "periodicSchedule": trigger},
            "workflow": {"parameters": values},
            "experimentId": experiment_id,
            "pipelineId": pipeline_id,
            "pipelineVersionId": pipeline_version_id,
            **({"serviceAccount": service_account} if service_account else {}),
        },
    }


def _problems(schedule: Schedule, now: float, server_timezone: str) -> Iterator[Problem]:
    if schedule.cron and _there(schedule, now, server_timezone) is None:
        wrong = f"has no equal: {NAME} reads all schedules in the server's one zone, {server_timezone}"
        fix = f"Write the times in {server_timezone}, or use Argo, whose CronWorkflows have a zone each"
        yield problem(("timezone",), wrong, fix, schedule.timezone)
    if schedule.concurrency == "replace":
        fix = "Choose forbid or allow, or use Argo"
        yield problem(("concurrency",), f"is not known to {NAME}", fix, "replace", "forbid, allow")
    if schedule.starting_deadline:
        wrong, fix = f"is not known to {NAME}: a late run is started, however late", "Leave it out, or use Argo"
        yield problem(("starting_deadline",), wrong, fix)
    if schedule.history.successful is not None or schedule.history.failed is not None:
        yield problem(("history",), f"is not known to {NAME}: it keeps every run", "Leave it out, or use Argo")


def _there(schedule: Schedule, now: float, server_timezone: str) -> Cron | None:
    """Return the expression as the server's zone has it; None for an interval, or where there is none."""
    cron, server = schedule.expression, zoneinfo.ZoneInfo(server_timezone)
    if cron is None or schedule.timezone == server_timezone:
        return cron
    here, there = fixed_offset(schedule.zone, now), fixed_offset(server, now)
    return moved(cron, there - here) if here is not None and there is not None else None


def _has_start(schedule: Schedule, now: float) -> bool:
    return schedule.starts is not None and schedule.origin(now) != int(now)
