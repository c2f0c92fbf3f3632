"""How often the usage of replicas is sampled: TFSTEPS_USAGE_INTERVAL, in the environment of the launcher."""

import os

from tfsteps.spec.units import parse_duration

VARIABLE = "TFSTEPS_USAGE_INTERVAL"
_LEAST, _MOST = 1.0, 3600.0


def usage_interval(default: float) -> tuple[float, str]:
    """Return the interval in seconds, 0 = no samples, and what is wrong with the variable; empty = nothing.

    Args:
        default: Seconds, if the variable is empty or wrong.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return default, ""
    allowed = "allowed: 0 for no samples, or a duration from 1s to 1h, such as 5s or 1m"
    try:
        interval = parse_duration(text)
    except ValueError:
        return default, f"{VARIABLE}={text!r} is not a duration; {allowed}"
    if interval and not _LEAST <= interval <= _MOST:
        size = "short" if interval < _LEAST else "long"
        return default, f"{VARIABLE}={text!r} is too {size}; {allowed}"
    return interval, ""
