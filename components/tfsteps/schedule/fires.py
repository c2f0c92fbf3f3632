"""Fire times of cron expressions: the same times as robfig/cron, the library of every supported scheduler.

Around clock changes robfig/cron differs from cron(8), so this module repeats its algorithm step by step: an hour that
occurs twice fires twice, and an hour that is skipped does not fire.

No Python library computes these times. Of the 1,500 cases of `tests/schedule`, most of them close to a clock change,
cronsim 2.8 differs in 5 from robfig/cron v3 and in 15 from v1.2: robfig/cron does not check the day again after an hour
step over a midnight that does not exist. With its month, day and hour steps replaced, 4 still differ.
"""

import calendar
import datetime as dt
import zoneinfo
from collections.abc import Iterator

from tfsteps.schedule.cron import Cron
from tfsteps.schedule.types import Schedule

_YEARS = 5  # robfig/cron stops its search after this time
_MINUTE, _HOUR = 60, 3600


def fire_times(
    schedule: Schedule,
    now: float,
    cron: Cron | None = None,
    zone: zoneinfo.ZoneInfo | None = None,
    *,
    adjusts_midnight: bool = True,
) -> Iterator[int]:
    """Yield the start times of the runs of a schedule, in seconds since the epoch.

    Args:
        schedule: The schedule.
        now: When the schedule is created, in seconds since the epoch.
        cron: The expression written for a scheduler; None = the expression of the schedule.
        zone: The time zone in which the scheduler reads it; None = the schedule's time zone.
        adjusts_midnight: As in `next_fire`.
    """
    expression = cron or schedule.expression
    at: int | None = schedule.origin(now)
    while at is not None:
        if expression:
            at = next_fire(expression, at, zone or schedule.zone, adjusts_midnight=adjusts_midnight)
        else:
            at += int(schedule.interval or 0)
        if at is None or schedule.ended(at):
            return
        yield at


def next_fire(cron: Cron, after: int, zone: zoneinfo.ZoneInfo, *, adjusts_midnight: bool = True) -> int | None:
    """Return the first time after `after` at which `cron` fires, in seconds since the epoch; None = not in five years.

    Args:
        cron: The expression.
        after: Seconds since the epoch.
        zone: The time zone of its fields.
        adjusts_midnight: Whether a search steps over days without a midnight, as robfig/cron v3 does and v1.2 does not.
    """
    return _Search(cron, after + 1, zone, adjusts_midnight).result()


class _Search:
    """One search. `_at` is the current time; `_added` = it was moved, so that all smaller fields are at their start."""

    def __init__(self, cron: Cron, start: int, zone: zoneinfo.ZoneInfo, adjusts_midnight: bool) -> None:
        self._cron, self._zone, self._adjusts_midnight = cron, zone, adjusts_midnight
        self._at = start
        self._added = False
        self._last_year = self._wall().year + _YEARS

    def result(self) -> int | None:
        while self._wall().year <= self._last_year:
            # A step returns False when its field wraps around: the larger fields must be checked again.
            if self._month() and self._day() and self._hour() and self._minute() and self._second():
                return self._at
        return None

    def _month(self) -> bool:
        while (wall := self._wall()).month not in self._cron.month.values:
            if not self._begin():
                wall = self._settled(wall.replace(day=1, hour=0, minute=0, second=0))
            year, month = divmod(wall.year * 12 + wall.month, 12)
            first = wall.replace(year=year, month=month + 1, day=1)
            self._at = self._instant(first + dt.timedelta(days=wall.day - 1))
            if self._wall().month == 1:
                return False
        return True

    def _day(self) -> bool:
        while not self._matches(wall := self._wall()):
            if not self._begin():
                wall = self._settled(wall.replace(hour=0, minute=0, second=0))
            self._at = self._instant(wall + dt.timedelta(days=1))
            if self._adjusts_midnight and (hour := self._wall().hour):
                self._at += (24 - hour if hour > 12 else -hour) * _HOUR
            if self._wall().day == 1:
                return False
        return True

    def _hour(self) -> bool:
        while (wall := self._wall()).hour not in self._cron.hour.values:
            if not self._begin():
                self._at = self._instant(wall.replace(minute=0, second=0))
            self._at += _HOUR
            if self._wall().hour == 0:
                return False
        return True

    def _minute(self) -> bool:
        while self._wall().minute not in self._cron.minute.values:
            if not self._begin():
                self._at -= self._at % _MINUTE
            self._at += _MINUTE
            if self._wall().minute == 0:
                return False
        return True

    def _second(self) -> bool:
        second = self._wall().second
        self._at += -second % _MINUTE
        self._added = self._added or second > 0
        return second == 0

    def _begin(self) -> bool:
        """Return whether a field was already moved, so that all smaller fields are at their start; note the move."""
        moved, self._added = self._added, True
        return moved

    def _matches(self, wall: dt.datetime) -> bool:
        day, weekday = self._cron.day, self._cron.weekday
        of_month, of_week = wall.day in day.values, wall.isoweekday() % 7 in weekday.values
        return of_month and of_week if day.star or weekday.star else of_month or of_week

    # --- wall clock times, computed as in Go's time package

    def _wall(self) -> dt.datetime:
        """Return the wall clock time at `_at`."""
        return dt.datetime.fromtimestamp(self._at, self._zone).replace(tzinfo=None, fold=0)

    def _offset(self, instant: int) -> int:
        offset = dt.datetime.fromtimestamp(instant, self._zone).utcoffset()
        return int(offset.total_seconds()) if offset else 0

    def _instant(self, wall: dt.datetime) -> int:
        """Return the time at which clocks show `wall`; as Go's `time.Date` if that occurs twice or never."""
        shown = calendar.timegm(wall.timetuple())
        if offset := self._offset(shown):
            offset = offset if self._offset(shown - offset) == offset else self._offset(shown - offset)
        return shown - offset

    def _settled(self, wall: dt.datetime) -> dt.datetime:
        """Move to `_instant(wall)` and return its wall clock time, which differs from `wall` if clocks skip `wall`."""
        self._at = self._instant(wall)
        return self._wall()
