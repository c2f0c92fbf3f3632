"""The options of a command that say when, and how fire times are shown."""

import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tfsteps import schedule
from tfsteps.cli.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.console.text import columns
from tfsteps.schedule import Schedule

SHOWN = 10

ScheduleFile = Annotated[
    str | None,
    typer.Option("--schedule", metavar="FILE", help="Run it by the schedule in this file, YAML or JSON."),
]
CronText = Annotated[
    str | None, typer.Option("--cron", metavar="CRON", help="Run it by a cron expression of five fields.")
]
Interval = Annotated[
    str | None, typer.Option("--every", metavar="DURATION", help="Run it again and again: 90m, 6h, 1d.")
]
Timezone = Annotated[str | None, typer.Option(metavar="ZONE", help="IANA time zone of --cron.", show_default="UTC")]


def chosen(file: str | None, cron: str | None, every: str | None, timezone: str | None) -> Schedule | None:
    """Return the schedule that the options mean; None for none.

    Raises:
        SpecError: It is wrong.
        CommandError: The options contradict one another, or the file cannot be read.
    """
    options = {"--schedule": file, "--cron": cron, "--every": every}
    used = [option for option, value in options.items() if value is not None]
    if len(used) > 1:
        raise CommandError(f"{' and '.join(used)} cannot all hold; leave one out")
    if timezone is not None and cron is None:
        raise CommandError("--timezone is that of --cron; add that, or write `timezone:` into the schedule's file")
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
    """Print the next runs to standard error: in the schedule's zone, and in UTC."""
    times = list(itertools.islice(fires, SHOWN))
    if not times:
        say("no run will ever start: its `end` has passed, or nothing comes before it")
        return
    what = "next runs" if when.cron else "next runs if it is created now"
    say(f"{what}:")
    zones = [when.zone] if when.timezone == "UTC" else [when.zone, dt.UTC]
    rows = [[_shown(at, zone) for zone in zones] for at in times]
    for line in columns(rows):
        say(f"  {line}")


def _shown(at: int, zone: dt.tzinfo) -> str:
    return dt.datetime.fromtimestamp(at, zone).strftime("%a %Y-%m-%d %H:%M:%S %Z")
