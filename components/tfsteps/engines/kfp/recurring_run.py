"""A schedule as a recurring run of Kubeflow Pipelines: arguments for its client.

Cron expressions of Kubeflow Pipelines have six fields, seconds first. It also accepts five fields but gives them
another meaning, so they are never written. All schedules use the server's time zone, CRON_SCHEDULE_TIMEZONE, which
defaults to UTC.
"""

import datetime as dt
import zoneinfo
from collections.abc import Iterator
from typing import Any

import msgspec

from tfsteps.schedule.cron import Cron, Field
from tfsteps.schedule.fires import fire_times
from tfsteps.schedule.parse import from_plain
from tfsteps.schedule.types import Schedule, utc
from tfsteps.spec.problems import Problem, SpecError, problem

NAME = "Kubeflow Pipelines"
MOST_AT_ONCE = 10
"""How many runs of a schedule may overlap; Kubeflow Pipelines reduces greater numbers to this one."""
_DAY_MINUTES = 24 * 60
_WEEKS = 10 * 53  # ten years, one check a week: no period of daylight saving time is shorter than a week


def schedule_problems(schedule: Schedule, now: float, server_timezone: str = "UTC") -> list[Problem]:
    """Return a problem for each field of `schedule` that a recurring run cannot express.

    Args:
        schedule: The schedule.
        now: Seconds since the epoch.
        server_timezone: The server's CRON_SCHEDULE_TIMEZONE.
    """
    return list(_problems(schedule, now, server_timezone))


def fires(schedule: Schedule, now: float, server_timezone: str = "UTC") -> Iterator[int]:
    """Yield the start times of the runs, in seconds since the epoch."""
    cron, zone = _server_cron(schedule, now, server_timezone), zoneinfo.ZoneInfo(server_timezone)
    return fire_times(schedule, now, cron, zone, adjusts_midnight=False)


def arguments(schedule: Schedule, now: float, server_timezone: str = "UTC") -> dict[str, Any]:
    """Return the schedule arguments of `kfp.Client().create_recurring_run`, for a schedule without problems."""
    cron = _server_cron(schedule, now, server_timezone)
    trigger = {"cron_expression": cron.with_seconds()} if cron else {"interval_second": int(schedule.interval or 0)}
    return {
        **trigger,
        **({"start_time": utc(schedule.origin(now))} if _has_start(schedule, now) else {}),
        **({"end_time": utc(schedule.ends - 1)} if schedule.ends is not None else {}),
        "max_concurrency": (schedule.max_active_runs or MOST_AT_ONCE) if schedule.concurrency == "allow" else 1,
        "no_catchup": not schedule.catch_up,
    }


def schedule_of(cron: str, interval_seconds: int, zone: str, *, start: str | None, end: str | None) -> Schedule | None:
    """Return when a recurring run fires; None = somebody wrote what cannot be read, such as a cron of each second.

    Args:
        cron: Six fields, seconds first; empty = it has an interval.
        interval_seconds: 0 = it has a cron.
        zone: The server's time zone.
        start: In ISO 8601; None = none.
        end: In ISO 8601, the first time at which no run starts; None = none.
    """
    second, _, fields = cron.partition(" ")
    if cron and (second != "0" or len(fields.split()) != 5):
        return None
    when = {"cron": fields, "timezone": zone} if cron else {"interval": f"{interval_seconds}s"}
    limits = {"start": start, "end": end}
    try:
        return from_plain({**when, **{field: text for field, text in limits.items() if text}})
    except SpecError:
        return None


def _problems(schedule: Schedule, now: float, server_timezone: str) -> Iterator[Problem]:
    if schedule.cron and _server_cron(schedule, now, server_timezone) is None:
        wrong = f"cannot be converted: {NAME} reads all schedules in the server's time zone, {server_timezone}"
        fix = f"Write the times in {server_timezone}, or use Argo, where each CronWorkflow has its own time zone"
        yield problem(("timezone",), wrong, fix, schedule.timezone)
    if schedule.concurrency == "replace":
        fix = "Choose forbid or allow, or use Argo"
        yield problem(("concurrency",), f"is not supported by {NAME}", fix, "replace", "forbid, allow")
    if schedule.max_active_runs is not None and schedule.max_active_runs > MOST_AT_ONCE:
        wrong, fix = f"is too large for {NAME}", f"Write at most {MOST_AT_ONCE}, or use Argo without a limit"
        yield problem(("max_active_runs",), wrong, fix, str(schedule.max_active_runs), f"from 1 to {MOST_AT_ONCE}")
    yield from _run_problems(schedule)
    for field in ("parallelism", "timeout"):
        if getattr(schedule, field) is not None:
            wrong = f"is not supported by {NAME}: recurring runs have no such limit"
            fix = "Limit the steps in the pipeline: deadlines of jobs, `ParallelFor(parallelism=...)`; or use Argo"
            yield problem((field,), wrong, fix)
    if schedule.starting_deadline:
        wrong, fix = f"is not supported by {NAME}: it always starts late runs", "Leave it out, or use Argo"
        yield problem(("starting_deadline",), wrong, fix)
    if schedule.history.successful is not None or schedule.history.failed is not None:
        yield problem(("history",), f"is not supported by {NAME}: it keeps every run", "Leave it out, or use Argo")


def _run_problems(schedule: Schedule) -> Iterator[Problem]:
    """Yield a problem for each field that would change the runs, or follow from the end of the last one."""
    if schedule.depends_on_past:
        wrong = f"is not supported by {NAME}: a recurring run does not look at the end of the last run"
        fix = "Leave it out: with `concurrency: forbid` a run waits for the end of the last one; or use Argo"
        yield problem(("depends_on_past",), wrong, fix, "true")
    if schedule.retry is not None:
        wrong = f"is not supported by {NAME}: retries belong to the tasks of the pipeline"
        yield problem(("retry",), wrong, "Write `set_retry` at the tasks, or use Argo", str(schedule.retry))
    if schedule.skip:
        wrong = f"is not supported by {NAME}: a recurring run runs the pipeline as it is uploaded"
        fix = "Add an input to the pipeline and `dsl.If`, or use Argo"
        yield problem(("skip",), wrong, fix, ", ".join(schedule.skip))


def _server_cron(schedule: Schedule, now: float, server_timezone: str) -> Cron | None:
    """Return the cron expression in the server's time zone; None for an interval, or if it cannot be converted."""
    cron, server = schedule.expression, zoneinfo.ZoneInfo(server_timezone)
    if cron is None or schedule.timezone == server_timezone:
        return cron
    offset, server_offset = fixed_offset(schedule.zone, now), fixed_offset(server, now)
    return moved(cron, server_offset - offset) if offset is not None and server_offset is not None else None


def _has_start(schedule: Schedule, now: float) -> bool:
    return schedule.starts is not None and schedule.origin(now) != int(now)


def fixed_offset(zone: zoneinfo.ZoneInfo, now: float) -> int | None:
    """Return a zone's offset from UTC in minutes, positive to the east; None if it changes in ten years from `now`."""
    first = dt.datetime.fromtimestamp(now, dt.UTC)
    moments = (first + dt.timedelta(weeks=week) for week in range(_WEEKS))
    offsets = {moment.astimezone(zone).utcoffset() for moment in moments}
    offset = offsets.pop() if len(offsets) == 1 else None
    return int(offset.total_seconds()) // 60 if offset is not None else None


def moved(cron: Cron, minutes: int) -> Cron | None:
    """Return the expression that fires `minutes` later than `cron`; None if no single expression does."""
    times = [hour * 60 + minute + minutes for hour in cron.hour.values for minute in cron.minute.values]
    days = {time // _DAY_MINUTES for time in times}
    pairs = {divmod(time % _DAY_MINUTES, 60) for time in times}
    hours, of_hour = frozenset(hour for hour, _ in pairs), frozenset(minute for _, minute in pairs)
    if len(hours) * len(of_hour) != len(pairs):
        return None
    result = msgspec.structs.replace(cron, hour=Field(hours), minute=Field(of_hour))
    if days == {0} or cron.any_day:
        return result
    if len(days) > 1 or not (cron.day.star and cron.month.star):
        return None  # the first day of a month would become the last day of another month
    (day,) = days
    return msgspec.structs.replace(
        result, weekday=Field(frozenset((weekday + day) % 7 for weekday in cron.weekday.values))
    )
