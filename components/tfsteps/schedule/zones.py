"""Time zones with a fixed offset, and the conversion of cron expressions between them."""

import datetime as dt
import zoneinfo

import msgspec

from tfsteps.schedule.cron import Cron, Field

_DAY_MINUTES = 24 * 60
_WEEKS = 10 * 53  # ten years, one check a week: no period of daylight saving time is shorter than a week


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
