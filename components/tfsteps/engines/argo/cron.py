"""Whether Argo's cron library accepts a schedule: five fields, minute first, or a word that begins with @."""

import re

from tfsteps.text import timezones

_WORDS = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
_EVERY = re.compile(r"@every (\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+")
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+) ")
_OF_CONTROLLER = {"", "Local", "UTC"}  # Go supports these without zone data
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_LENGTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]  # days of each month, at most
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: list[tuple[str, int, int, list[str]]] = [
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day of month", 1, 31, []),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
]


def cron_problem(schedule: str) -> str:
    """Return what is wrong with a schedule, as a phrase that follows it; empty = nothing."""
    if (zone := _ZONE.match(schedule)) and (problem := zone_problem(zone[1])):
        return f"names a time zone that {problem}"
    text = _ZONE.sub("", schedule, count=1)
    if text.startswith("@"):
        known = text in _WORDS or _EVERY.fullmatch(text)
        return "" if known else f"is not one of {', '.join(sorted(_WORDS))} and @every with a duration"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"has {len(fields)} fields; Argo expects 5: minute, hour, day of month, month, day of week"
    values: list[set[int]] = []
    for field, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        values.append(set())
        for part in field.split(","):
            if not (fires := _part(part, low, high, names)):
                return f"has no {name} from {low} to {high} in {part!r}"
            values[-1].update(fires)
    _, _, days, months, _ = values
    if fields[-1][0] in "*?" and min(days) > max(_LENGTHS[month - 1] for month in months):
        return "never fires: there is no such day"
    return ""


def zone_problem(name: str) -> str:
    """Return what is wrong with a time zone, as a phrase that follows it; empty = nothing."""
    fix = "" if name in _OF_CONTROLLER else timezones.fix(name)
    return f"{timezones.WRONG}, so nothing is ever started. {fix}" if fix else ""


def _part(part: str, low: int, high: int, names: list[str]) -> range:
    """Return the values of `*`, `a`, `a-b`, each optionally with `/step`; empty = others than `low` to `high`."""
    whole, slash, step = part.partition("/")
    if slash and not (step.isascii() and step.isdigit() and int(step)):
        return range(0)
    numbers = [low, high] if whole in {"*", "?"} else [_number(end, low, names) for end in whole.split("-")]
    ends = [end for end in numbers if end is not None and low <= end <= high]
    if len(ends) != len(numbers) or len(ends) > 2 or ends != sorted(ends):
        return range(0)
    last = high if slash and len(ends) == 1 else ends[-1]
    return range(ends[0], last + 1, int(step) if slash else 1)


def _number(text: str, low: int, names: list[str]) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + low
    return int(text) if text.isascii() and text.isdigit() else None
