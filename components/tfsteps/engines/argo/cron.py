"""Whether Argo's cron library accepts a schedule: five fields, minute first, or a word that begins with @."""

import re

from tfsteps.text import timezones

_WORDS = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
_EVERY = re.compile(r"@every (\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+")
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+) ")
_OF_CONTROLLER = {"", "Local", "UTC"}  # Go supports these without zone data
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
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
    for field, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            if not _part(part, low, high, names):
                return f"has no {name} from {low} to {high} in {part!r}"
    return ""


def zone_problem(name: str) -> str:
    """Return what is wrong with a time zone, as a phrase that follows it; empty = nothing."""
    fix = "" if name in _OF_CONTROLLER else timezones.fix(name)
    return f"{timezones.WRONG}, so nothing is ever started. {fix}" if fix else ""


def _part(part: str, low: int, high: int, names: list[str]) -> bool:
    """Tell whether `*`, `a`, `a-b`, each optionally with `/step`, is a range of values from `low` to `high`."""
    whole, slash, step = part.partition("/")
    if slash and not (step.isascii() and step.isdigit() and int(step)):
        return False
    if whole in {"*", "?"}:
        return True
    ends = [_number(end, low, names) for end in whole.split("-")]
    return (
        len(ends) <= 2
        and all(end is not None and low <= end <= high for end in ends)
        and ends == sorted(ends, key=lambda end: end or 0)
    )


def _number(text: str, low: int, names: list[str]) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + low
    return int(text) if text.isascii() and text.isdigit() else None
