"""Whether a text names a time zone, and which one was meant."""

import difflib
import functools
import zoneinfo

WRONG = "is not a time zone of the IANA database"
_EXAMPLE = "Write a name such as `Europe/Berlin`, or `Etc/GMT-3` for +03:00"


def fix(name: str) -> str:
    """Return what to write in place of a name that is no time zone; empty = it is one.

    Where this machine has no zone data, every name passes: the scheduler has the last word.
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
