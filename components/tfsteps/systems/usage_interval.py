"""How often the usage of replicas is sampled: TFSTEPS_USAGE_INTERVAL, in the environment of the launcher."""

from tfsteps.spec.units import environment_limit, parse_duration

VARIABLE = "TFSTEPS_USAGE_INTERVAL"
_LEAST, _MOST = 1.0, 3600.0


def usage_interval(default: float) -> tuple[float, str]:
    """Return the interval in seconds, 0 = no samples, and what is wrong with the variable; empty = nothing.

    Args:
        default: Seconds, if the variable is empty or wrong.
    """
    allowed = "0 for no samples, or a duration from 1s to 1h, such as 5s or 1m"
    return environment_limit(
        VARIABLE, parse_duration, "a duration", least=_LEAST, most=_MOST, default=default, allowed=allowed
    )
