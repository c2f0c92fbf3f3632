"""Reads a `Schedule` from text, a file or plain data, and reports every problem in it."""

import os
import pathlib
import time
import zoneinfo
from collections.abc import Iterator
from typing import Any

import msgspec

from tfsteps.schedule import fires
from tfsteps.schedule.cron import Cron
from tfsteps.schedule.types import Schedule, seconds
from tfsteps.spec.decode import Document, decode
from tfsteps.spec.problems import FileKind, Path, Problem, RefusedError, SpecError, problem, shown
from tfsteps.text import timezones

_SCHEDULE_FILE = FileKind(
    name="schedule",
    path=("schedule",),
    start="Start with `cron:` or `interval:`",
    manifest="Write the fields of a schedule, such as `cron: 0 9 * * 1-5`",
)
_YEAR_9900 = 250_246_627_200  # in seconds since the epoch; the search for a fire looks at some years after `start`


def load(path: str | os.PathLike[str]) -> Schedule:
    """Return the schedule in the YAML or JSON file at `path`.

    Raises:
        SpecError: With every problem of the file.
        OSError: The file cannot be read.
    """
    source = os.fspath(path)
    try:
        return parse(pathlib.Path(path).read_text("utf-8-sig"), source)
    except UnicodeDecodeError as error:
        wrong = f"is not UTF-8 (byte {error.start})"
        raise SpecError(
            [Problem(path=_SCHEDULE_FILE.path, wrong=wrong, fix="Save the file as UTF-8")], source
        ) from error


def parse(text: str, source: str = "schedule") -> Schedule:
    """Return the schedule in a YAML or JSON text; messages name it `source`.

    Raises:
        SpecError: With every problem of the text.
    """
    from tfsteps.spec import yaml_text  # noqa: PLC0415  plain data needs no yaml

    return _schedule(yaml_text.parse(text, source, _SCHEDULE_FILE))


def from_plain(value: Any, source: str = "schedule") -> Schedule:
    """Return the schedule in plain data.

    Raises:
        SpecError: With every problem of the data.
    """
    return _schedule(Document(value, source=source))


def _schedule(document: Document) -> Schedule:
    schedule, field_problems = decode(document, Schedule)
    problems = document.problems + field_problems
    known = {problem.path[:1] for problem in problems}
    if ("interval",) in known:  # it is there, though wrong
        known.add(("cron",))
    problems += [problem for problem in _rules(schedule) if problem.path not in known]
    if problems:
        placed = [
            msgspec.structs.replace(problem, line=problem.line or document.line(problem.path)) for problem in problems
        ]
        raise SpecError(sorted(placed, key=lambda problem: problem.line or 0), document.source)
    return schedule


# --- rules that the types do not express


def _rules(schedule: Schedule) -> Iterator[Problem]:
    if schedule.cron is None and schedule.interval is None:
        yield problem(("cron",), "is missing, and so is `interval`", "Write `cron: 0 9 * * 1-5`, or `interval: 6h`")
    if schedule.cron is not None and schedule.interval is not None:
        yield problem(("interval",), "cannot be combined with `cron`", "Keep one of them", f"{schedule.interval:g}s")
    yield from _whole(("interval",), schedule.interval)
    yield from _whole(("starting_deadline",), schedule.starting_deadline)
    yield from _whole(("timeout",), schedule.timeout)
    if schedule.max_active_runs is not None and schedule.concurrency != "allow":
        wrong, fix = "has an effect only with `concurrency: allow`", "Write that too, or leave `max_active_runs` out"
        yield problem(("max_active_runs",), wrong, fix, str(schedule.max_active_runs))
    if schedule.expired_limit is not None and schedule.concurrency != "replace":
        wrong, fix = "has an effect only with `concurrency: replace`", "Write that too, or leave `expired_limit` out"
        yield problem(("expired_limit",), wrong, fix, str(schedule.expired_limit))
    if schedule.depends_on_past and schedule.concurrency != "forbid":
        wrong = (
            f"cannot be combined with `concurrency: {schedule.concurrency}`: a run waits for the last one to succeed"
        )
        yield problem(("depends_on_past",), wrong, "Write `concurrency: forbid`, or leave one of them out", "true")
    zone = _zone(schedule.timezone)
    if isinstance(zone, Problem):
        yield zone
        zone = zoneinfo.ZoneInfo("UTC")
    if schedule.cron is not None:
        yield from _cron(schedule.cron)
    yield from _limits(schedule, zone)


def _whole(path: Path, value: float | None) -> Iterator[Problem]:
    if value is not None and (value < 1 or value != int(value)):
        yield problem(path, "is not a whole number of seconds", "Write something like `90m`", f"{value:g}s")


def _zone(name: str) -> zoneinfo.ZoneInfo | Problem:
    if fix := timezones.fix(name):
        return problem(("timezone",), timezones.WRONG, fix, shown(name))
    return zoneinfo.ZoneInfo(name)


def _cron(text: str) -> Iterator[Problem]:
    path: Path = ("cron",)
    try:
        cron = Cron.parse(text)
    except RefusedError as error:
        yield problem(path, error.wrong, error.fix, shown(text), error.allowed)
        return
    if fires.next_fire(cron, int(time.time()), zoneinfo.ZoneInfo("UTC")) is None:
        yield problem(path, "never fires: there is no such day", "Choose a day that exists in the month", shown(text))


def _limits(schedule: Schedule, zone: zoneinfo.ZoneInfo) -> Iterator[Problem]:
    instants: dict[str, int] = {}
    for name, text in (("start", schedule.start), ("end", schedule.end)):
        try:
            instants |= {name: seconds(text, zone)} if text else {}
        except ValueError as error:
            yield problem((name,), f"is not a valid date or time: {error}", "Correct it", shown(text))
    if instants.get("start", 0) >= _YEAR_9900:
        yield problem(("start",), "is too late", "Write a time before the year 9900", shown(schedule.start))
    if len(instants) == 2 and instants["end"] <= instants["start"]:
        yield problem(("end",), f"is not after `start`, {schedule.start}", "Write a later time", shown(schedule.end))
