"""Checks names of time zones, and suggests a correct name."""

import difflib
import functools
import zoneinfo

WRONG = "is not a time zone of the IANA database"
_EXAMPLE = "Write a name such as `Europe/Berlin`, or `Etc/GMT-3` for +03:00"


def fix(name: str) -> str:
    """Return what to write instead of a name that is not a time zone; empty = the name is valid.

    Without time zone data on this machine, every name is accepted, and the scheduler checks it.
    """
    known = _known()
    if not known:
        return ""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        by_city = {zone.rpartition("/")[2].lower(): zone for zone in sorted(known)}
        near = difflib.get_close_matches(name.rpartition("/")[2].lower(), by_city, n=1)
        return f"Write `{by_city[near[0]]}`" if near else _EXAMPLE
    return ""


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
