"""A panel for each replica: its incarnations, and the end of its log."""

import collections
from collections.abc import Mapping, Sequence

from tfsteps.report.formats import UNKNOWN, badge, cpu_seconds, duration, ended_with, peak_memory, plural, size
from tfsteps.report.html import Html, tag
from tfsteps.report.logs import LogTail
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.status import Incarnation, ReplicaStatus

_MOST = 200
_GROUPED = 8  # more replicas of a role are grouped
_WORST_FIRST = [
    *(ReplicaState.FAILED, ReplicaState.RESTARTING, ReplicaState.UNKNOWN, ReplicaState.PENDING),
    *(ReplicaState.RUNNING, ReplicaState.STOPPED, ReplicaState.SUCCEEDED),
]
_INCARNATIONS = 60


def notable(replicas: Sequence[ReplicaStatus], decisive_replica: str, limit: int = _MOST) -> list[ReplicaStatus]:
    """Return at most `limit` of `replicas`, in their order; failed and restarted replicas are kept before others."""
    ranked = sorted(
        replicas, key=lambda r: (r.state is not ReplicaState.FAILED, r.name != decisive_replica, -r.restarts)
    )
    kept = {replica.name for replica in ranked[:limit]}
    return [replica for replica in replicas if replica.name in kept]


def panels(replicas: Sequence[ReplicaStatus], tails: Mapping[str, LogTail], start: float, opened: str) -> Html:
    """Return the panels; those of a role with many replicas are in one more panel.

    Args:
        replicas: The replicas.
        tails: Ends of their logs, by name.
        start: When the job was created, in seconds since the epoch; times are shown relative to it.
        opened: Name of the replica whose panel is open; empty = none.
    """
    by_role: dict[str, list[ReplicaStatus]] = {}
    for replica in replicas:
        by_role.setdefault(replica.role, []).append(replica)
    parts: list[Html] = []
    for role, members in by_role.items():
        drawn = [_panel(replica, tails.get(replica.name, LogTail()), start, opened) for replica in members]
        parts += [_role(role, members, drawn, opened)] if len(members) > _GROUPED else drawn
    return tag("div", *parts, class_="replicas")


def _role(role: str, replicas: Sequence[ReplicaStatus], drawn: Sequence[Html], opened: str) -> Html:
    """Return the panel of a role, with the number of its replicas by state."""
    counts = collections.Counter(replica.state for replica in replicas)
    states = [state for state in _WORST_FIRST if state in counts]
    restarts = sum(replica.restarts for replica in replicas)
    summary = tag(
        "summary",
        tag("span", role, class_="name"),
        tag("span", plural(len(replicas), "replica")),
        *[badge(state, f"{counts[state]} {state}") for state in states],
        tag("span", plural(restarts, "restart"), class_="quiet") if restarts else None,
    )
    inside = tag("div", *drawn, class_="replicas dense inside")
    return tag("details", summary, inside, class_="role", open=any(replica.name == opened for replica in replicas))


def _panel(replica: ReplicaStatus, tail: LogTail, start: float, opened: str) -> Html:
    facts = ["never started"]
    if replica.incarnations:
        cpu, memory = cpu_seconds([replica]), peak_memory([replica])
        facts = [
            *ended_with(replica.incarnations[-1]),
            *([plural(replica.restarts, "restart")] if replica.restarts else []),
            *([f"CPU {duration(cpu)}"] if cpu is not None else []),
            *([f"peak {size(memory)}"] if memory is not None else []),
        ]
    summary = tag(
        "summary",
        tag("span", replica.name, class_="name"),
        badge(replica.state),
        *[tag("span", fact, class_="quiet") for fact in facts],
    )
    return tag(
        "details",
        summary,
        tag("div", _incarnations(replica.incarnations, start), last_lines(replica.name, tail), class_="inside"),
        id=replica.name,
        class_="replica",
        open=replica.name == opened,
    )


def _incarnations(incarnations: Sequence[Incarnation], start: float) -> Html | None:
    if not incarnations:
        return None
    first = max(0, len(incarnations) - _INCARNATIONS)
    heads = ["Start", "At", "Duration", "State", "Exit code", "Reason", "CPU", "Peak memory", "Place"]
    rows = []
    for place, incarnation in enumerate(incarnations[first:], first):
        ended, code = incarnation.ended, incarnation.exit_code
        cells = [
            str(place + 1),
            duration(incarnation.started - start),
            "still running" if ended is None else duration(ended - incarnation.started),
            badge(incarnation.state),
            UNKNOWN if code is None else str(code),
            incarnation.reason or UNKNOWN,
            duration(incarnation.cpu_seconds),
            size(incarnation.memory_bytes),
            incarnation.place or UNKNOWN,
        ]
        rows.append(tag("tr", *[tag("td", text) for text in cells]))
    note = tag("p", f"{plural(first, 'earlier start')} not shown.", class_="note") if first else None
    table = tag(
        "table", tag("thead", tag("tr", *[tag("th", text, scope="col") for text in heads])), tag("tbody", *rows)
    )
    return tag("div", note, table, class_="scroll")


def last_lines(name: str, tail: LogTail) -> Html:
    """Return the end of the log of a replica or a step, with what is left out."""
    if not tail.lines:
        far = f"The lines of {name} are too far from the end of the log file."
        note = far if tail.earlier else f"{name} printed nothing."
        return tag("p", note, class_="note")
    lines = [part for line in tail.lines for part in (tag("i", line.at), f" {line.text}\n")]
    count = plural(len(tail.lines), "line")
    note = f"Last {count} of the log, times in UTC" if tail.earlier else f"Whole log, {count}, times in UTC"
    label = f"Log of {name}"
    return tag("div", tag("p", note, class_="note"), tag("pre", *lines, tabindex=0, role="region", aria_label=label))
