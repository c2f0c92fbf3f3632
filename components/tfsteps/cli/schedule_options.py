"""The schedule options of a command, and the display of fire times."""

import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tfsteps import schedule
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.console.text import columns
from tfsteps.schedule import Schedule

SHOWN = 10

ScheduleFile = Annotated[
    str | None,
    typer.Option("--schedule", metavar="FILE", help="Run it on the schedule in this YAML or JSON file."),
]
CronText = Annotated[
    str | None, typer.Option("--cron", metavar="CRON", help="Run it on a cron expression of five fields.")
]
Interval = Annotated[
    str | None, typer.Option("--every", metavar="DURATION", help="Run it at this interval: 90m, 6h, 1d.")
]
Timezone = Annotated[str | None, typer.Option(metavar="ZONE", help="IANA time zone of --cron.", show_default="UTC")]


def chosen(file: str | None, cron: str | None, every: str | None, timezone: str | None) -> Schedule | None:
    """Return the schedule of the options; None if none of them is set.

    Raises:
        SpecError: The schedule is not valid.
        CommandError: The options contradict one another, or the file cannot be read.
    """
    options = {"--schedule": file, "--cron": cron, "--every": every}
    used = [option for option, value in options.items() if value is not None]
    if len(used) > 1:
        raise CommandError(f"{' and '.join(used)} cannot be combined; keep one of them")
    if timezone is not None and cron is None:
        raise CommandError("--timezone requires --cron; add --cron, or write `timezone:` in the schedule file")
    if file is not None:
        try:
            return schedule.load(file)
        except OSError as error:
            raise CommandError(f"schedule {file!r} cannot be read: {error}; give a YAML or JSON file") from error
    plain: dict[str, Any] = {"cron": cron} if cron is not None else {"interval": every} if every is not None else {}
    if timezone is not None:
        plain["timezone"] = timezone
    return schedule.from_plain(plain, "options") if plain else None


def print_fires(when: Schedule, fires: Iterator[int]) -> None:
    """Print the start times of the next runs to standard error, in the schedule's time zone and in UTC."""
    times = list(itertools.islice(fires, SHOWN))
    if not times:
        say("no run will ever start: the schedule's `end` has passed, or no run is due before it")
        return
    say("next runs:" if when.cron else "next runs if the schedule is created now:")
    zones = [when.zone] if when.timezone == "UTC" else [when.zone, dt.UTC]
    rows = [[_shown(at, zone) for zone in zones] for at in times]
    for line in columns(rows):
        say(f"  {line}")


def _shown(at: int, zone: dt.tzinfo) -> str:
    return dt.datetime.fromtimestamp(at, zone).strftime("%a %Y-%m-%d %H:%M:%S %Z")
