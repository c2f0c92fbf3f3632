"""Checks names of time zones, and suggests a correct name."""

import functools
import re
import zoneinfo

from tfsteps.spec.spelling import edits

WRONG = "is not a time zone of the IANA database"
_EXAMPLE = "Write a name such as `Europe/Berlin`, or `Etc/GMT-3` for +03:00"
_OFFSET = re.compile(r"(?:(?:Etc/)?UTC|GMT)?\s*([+-])(\d{1,2}):?(00)?", re.IGNORECASE)


def fix(name: str) -> str:
    """Return what to write instead of a name that is not a time zone; empty = the name is valid.

    Without time zone data on this machine, every name is accepted, and the scheduler checks it. A name of another zone
    is worse than none: offsets, other spellings of a name, and cities of one zone are recognized, and nothing else.
    """
    known = _known()
    if not known:
        return ""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        offset = _of_offset(name)
        meant = ({offset} & known) if offset else set(_spelled(name))
        return f"Write `{meant.pop()}`" if len(meant) == 1 else _EXAMPLE
    return ""


def _of_offset(name: str) -> str:
    """Return the zone of an offset such as `GMT+3`: the names of the database have the opposite sign."""
    if not (match := _OFFSET.fullmatch(name.strip())):
        return ""
    hours = int(match[2])
    return f"Etc/GMT{'-' if match[1] == '+' else '+'}{hours}" if hours else "UTC"


def _spelled(name: str) -> list[str]:
    """Return the zones with this name, or this city, but for case and spaces; else those with one slip in the name."""
    plain = re.sub(r"\s+", "_", name.strip().lower())
    names = {zone: zone.lower() for zone in _known() if "/" in zone}
    if "/" not in plain:
        return [zone for zone, spelled in names.items() if spelled.rpartition("/")[2] == plain]
    same = [zone for zone, spelled in names.items() if spelled == plain]
    return same or [zone for zone, spelled in names.items() if edits(spelled, plain) == 1]


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
