"""The types of a schedule, with all defaults."""

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
        description="a date, or a date and time; without Z or an offset it is in `timezone`",
        examples=["2026-12-01", "2026-12-01T06:00:00Z"],
    ),
]
Count = Annotated[int, Meta(ge=0, le=100, description="a whole number from 0 to 100", examples=[3])]


Several = Annotated[int, Meta(ge=1, le=1000, description="a whole number from 1 to 1000", examples=[3])]

_YEAR_10000 = 253_402_300_800  # in seconds since the epoch; no `datetime` is later


class History(msgspec.Struct, frozen=True, kw_only=True):
    """How many ended runs are kept. Left out: the scheduler's default.

    Attributes:
        successful: Number of succeeded runs to keep.
        failed: Number of failed runs to keep.
    """

    successful: Count | None = None
    failed: Count | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When something runs. Set either `cron` or `interval`.

    Attributes:
        cron: Five fields: minute, hour, day of month, month, day of week (Sunday is 0 or 7, names are allowed), with
            lists, ranges and steps; or @hourly, @daily, @weekly, @monthly, @yearly.
        interval: Time between the starts of two runs, in whole seconds; the first run starts one interval after the
            schedule is created, or after `start`.
        timezone: The IANA name of the time zone of `cron`, `start` and `end`.
        start: No run starts before this time. Left out: the creation of the schedule.
        end: No run starts at this time or later. Left out: no end.
        catch_up: Start every run that was missed in an outage or since a `start` in the past, one after another.
            false: at most the newest missed run.
        depends_on_past: A run starts only after the last run of the schedule has succeeded; later dates wait.
        concurrency: What happens when a run is due and the last one has not ended: forbid = the run is skipped or
            waits; allow = both run at once; replace = the last run is stopped and the new one starts.
        starting_deadline: How late a run may start, in whole seconds. Left out: the scheduler's default.
        max_active_runs: How many runs of the schedule may overlap with `concurrency: allow`. Left out: as many as the
            scheduler starts.
        expired_limit: With `concurrency: replace`: how many of the newest dates may have a run in progress; the runs of
            older dates are stopped, and older dates that wait are given up. Left out: 1.
        parallelism: How many steps of a run are in progress at once. Left out: as the pipeline says.
        timeout: How long a run may take, in whole seconds; then it is stopped, and has failed. Left out: as the
            pipeline says.
        retry: How often a step that failed is tried again. Left out: as the pipeline says.
        skip: Names of steps that the runs of the schedule leave out. Steps after them run as if they had succeeded.
        history: How many ended runs are kept.
    """

    cron: Annotated[Filled, Meta(description=ALLOWED, examples=["0 9 * * 1-5"])] | None = None
    interval: Duration | None = None
    timezone: Annotated[Filled, Meta(description="the name of a time zone", examples=["Europe/Berlin"])] = "UTC"
    start: Instant | None = None
    end: Instant | None = None
    catch_up: bool = False
    depends_on_past: bool = False
    concurrency: Literal["forbid", "allow", "replace"] = "forbid"
    starting_deadline: Duration | None = None
    max_active_runs: Several | None = None
    expired_limit: (
        Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100", examples=[3])] | None
    ) = None
    parallelism: Several | None = None
    timeout: Duration | None = None
    retry: Count | None = None
    skip: tuple[Filled, ...] = ()
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
        """`start` in seconds since the epoch; None if it is left out."""
        return seconds(self.start, self.zone) if self.start else None

    @property
    def ends(self) -> int | None:
        """`end` in seconds since the epoch; None if it is left out."""
        return seconds(self.end, self.zone) if self.end else None

    def origin(self, now: float) -> int:
        """Return the time after which cron runs start, or from which an interval counts, for a schedule created `now`.

        In seconds since the epoch. A `start` in the past has an effect only with `catch_up`.
        """
        if self.starts is None or (self.starts <= now and not self.catch_up):
            return int(now)
        return self.starts - 1 if self.cron else self.starts

    def ended(self, at: int) -> bool:
        """Return whether the schedule has ended at `at`, so that no run starts then."""
        return self.ends is not None and at >= self.ends


def seconds(instant: str, zone: zoneinfo.ZoneInfo) -> int:
    """Return an `Instant` in seconds since the epoch. ValueError if it does not exist, or not from 1970 to 9999."""
    moment = dt.datetime.fromisoformat(instant)
    result = int((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp())
    if not 0 <= result < _YEAR_10000:
        raise ValueError("it is not from 1970 to 9999")
    return result


def utc(instant: int) -> str:
    """Return seconds since the epoch in the format of RFC 3339: `2026-12-01T06:00:00Z`."""
    return dt.datetime.fromtimestamp(instant, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
