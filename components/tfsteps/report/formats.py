"""Formats times, sizes and states for the report."""

import datetime as dt
import re
from collections.abc import Sequence

from tfsteps.report.html import Html, tag
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.status import CLOCK_SECONDS, Incarnation, ReplicaStatus
from tfsteps.spec import format_bytes, format_duration

UNKNOWN = "\N{EN DASH}"

_NUMBER = re.compile("([0-9]+)")
_CLOCK = "M8 4.6v3.6l2.4 1.5M13.5 8a5.5 5.5 0 1 1-11 0 5.5 5.5 0 0 1 11 0"
_QUESTION = "M6 6.1a2.05 2.05 0 1 1 3 1.8c-.6.35-1 .8-1 1.6M8 11.9v.2"
_ICONS = {
    "succeeded": "M3.8 8.6l2.9 2.9 5.6-6.4",
    "failed": "M4.7 4.7l6.6 6.6M11.3 4.7l-6.6 6.6",
    "cancelled": "M4.1 11.9l7.8-7.8M13.5 8a5.5 5.5 0 1 1-11 0 5.5 5.5 0 0 1 11 0",
    "lost": _QUESTION,
    "unknown": _QUESTION,
    "running": "M5.6 4.2l6.2 3.8-6.2 3.8z",
    "restarting": "M12.4 8.4a4.5 4.5 0 1 1-1.2-3.6L12.6 6M12.7 2.8V6H9.5",
    "pending": _CLOCK,
    "queued": _CLOCK,
    "suspended": "M6 4.6v6.8M10 4.6v6.8",
    "stopped": "M5 5h6v6H5z",
}


def icons() -> Html:
    """Return the definitions of the icons of all states, to which `icon` refers."""
    symbols = [
        tag("symbol", tag("path", d=path), id=f"icon-{state}", viewBox="0 0 16 16") for state, path in _ICONS.items()
    ]
    return tag("svg", *symbols, class_="sprite", aria_hidden="true")


def icon(state: str, **attributes: str | float) -> Html:
    """Return the icon of a state, hidden from screen readers; show the state as text beside it."""
    return tag("svg", tag("use", href=f"#icon-{state}"), class_="icon", aria_hidden="true", **attributes)


def badge(state: str, text: str = "") -> Html:
    """Return a state as icon and text; without text, as icon and word."""
    return tag("span", icon(state), text or state.capitalize(), class_=f"badge is-{state}")


def moment(at: float | None) -> str:
    """Return `2025-06-01 12:00:05 UTC`."""
    if at is None:
        return UNKNOWN
    try:
        return f"{dt.datetime.fromtimestamp(at, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{at} s"


def duration(seconds: float | None) -> str:
    """Return `3m05s`; `not known` for a negative time, after a clock was set back."""
    if seconds is None:
        return UNKNOWN
    return "not known" if seconds < -CLOCK_SECONDS else format_duration(max(seconds, 0.0))


def size(amount: float | None) -> str:
    """Return `1.5 GiB`."""
    return UNKNOWN if amount is None else format_bytes(amount)


def cpu_seconds(replicas: Sequence[ReplicaStatus]) -> float | None:
    """Return the CPU time of all replicas, in seconds; None = not known of any."""
    times = [incarnation.cpu_seconds for replica in replicas for incarnation in replica.incarnations]
    known = [seconds for seconds in times if seconds is not None]
    return sum(known) if known else None


def peak_memory(replicas: Sequence[ReplicaStatus]) -> int | None:
    """Return the peak memory of the replica that used most, in bytes; None = not known of any."""
    amounts = [incarnation.memory_bytes for replica in replicas for incarnation in replica.incarnations]
    return max((amount for amount in amounts if amount is not None), default=None)


def plural(count: int, noun: str) -> str:
    """Return `1 restart`, `2 restarts`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def natural(text: str) -> list[str | int]:
    """Return a key for sorting that puts `worker-2` before `worker-10`."""
    return [int(part) if part.isdigit() else part for part in _NUMBER.split(text)]


def outcome(replica: ReplicaStatus) -> str:
    """Return how a replica ended: `failed, exit code 137, OOMKilled, 2 restarts`."""
    parts = [replica.state.value]
    if replica.incarnations and replica.state is not ReplicaState.PENDING:
        parts += ended_with(replica.incarnations[-1])
    return ", ".join([*parts, plural(replica.restarts, "restart")] if replica.restarts else parts)


def ended_with(incarnation: Incarnation) -> list[str]:
    """Return the exit code and the reason of an incarnation, if there are any.

    The exit code of a stopped one is left out: it is that of the signal that stopped it, and looks like a failure.
    """
    known = incarnation.exit_code is not None and incarnation.state is not ReplicaState.STOPPED
    code = [f"exit code {incarnation.exit_code}"] if known else []
    return code + ([incarnation.reason] if incarnation.reason else [])
