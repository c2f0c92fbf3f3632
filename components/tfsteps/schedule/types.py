"""The types of a schedule. Every default is said here once."""

import datetime as dt
import zoneinfo
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tfsteps.schedule.cron import ALLOWED, Cron
from tfsteps.spec.fields import Filled
from tfsteps.spec.units import Duration

Instant = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?)?$",
        description="a date, or a date and time; without Z or an offset it is meant in `timezone`",
        examples=["2026-12-01", "2026-12-01T06:00:00Z"],
    ),
]
Count = Annotated[int, Meta(ge=0, le=100, description="a whole number from 0 to 100", examples=[3])]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """How many ended runs are kept; left out: as many as the scheduler keeps by itself.

    Attributes:
        successful: Of those that succeeded.
        failed: Of those that did not.
    """

    successful: Count | None = None
    failed: Count | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When something is to run. Either `cron` or `interval` is given.

    Attributes:
        cron: Five fields: minute, hour, day of month, month, day of week (Sunday is 0 or 7, names are known), with
            lists, ranges and steps; or @hourly, @daily, @weekly, @monthly, @yearly.
        interval: Time between the starts of two runs, in whole seconds; the first comes one interval after the
            schedule is created, or after `start`.
        timezone: The IANA name of the zone in which `cron`, `start` and `end` are read.
        start: No run before it. Left out: from when the schedule is created.
        end: No run at it or later. Left out: for ever.
        catch_up: Start every run that was missed, one after another: in an outage, or since a `start` in the past.
            false: the newest at most.
        concurrency: What happens when a run is due and the last one has not ended: it is left out or waits (forbid),
            starts beside it (allow), or in its place (replace).
        starting_deadline: How late a run may start, in whole seconds. Left out: as the scheduler has it.
        history: How many ended runs are kept.
    """

    cron: Annotated[Filled, Meta(description=ALLOWED, examples=["0 9 * * 1-5"])] | None = None
    interval: Duration | None = None
    timezone: Annotated[Filled, Meta(description="the name of a time zone", examples=["Europe/Berlin"])] = "UTC"
    start: Instant | None = None
    end: Instant | None = None
    catch_up: bool = False
    concurrency: Literal["forbid", "allow", "replace"] = "forbid"
    starting_deadline: Duration | None = None
    history: History = History()

    @property
    def zone(self) -> zoneinfo.ZoneInfo:
        """The time zone."""
        return zoneinfo.ZoneInfo(self.timezone)

    @property
    def expression(self) -> Cron | None:
        """The cron expression; None for an interval."""
        return Cron.parse(self.cron) if self.cron is not None else None

    @property
    def starts(self) -> int | None:
        """Seconds since the epoch of `start`."""
        return seconds(self.start, self.zone) if self.start else None

    @property
    def ends(self) -> int | None:
        """Seconds since the epoch of `end`."""
        return seconds(self.end, self.zone) if self.end else None

    def origin(self, now: float) -> int:
        """Return the second after which runs are looked for, or from which an interval counts, if it is created `now`.

        A `start` that has passed counts only where runs are caught up with.
        """
        if self.starts is None or (self.starts <= now and not self.catch_up):
            return int(now)
        return self.starts - 1 if self.cron else self.starts

    def ended(self, at: int) -> bool:
        """Tell whether no run may start at the second `at`."""
        return self.ends is not None and at >= self.ends


def seconds(instant: str, zone: zoneinfo.ZoneInfo) -> int:
    """Return the seconds since the epoch of an `Instant`. ValueError for a day or an hour that no calendar has."""
    moment = dt.datetime.fromisoformat(instant)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp())


def utc(instant: int) -> str:
    """Return seconds since the epoch as RFC 3339 has them: `2026-12-01T06:00:00Z`."""
    return dt.datetime.fromtimestamp(instant, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
