"""A panel for each replica: its incarnations, and the end of its log."""

from collections.abc import Iterable, Mapping, Sequence

from tfsteps.report.formats import UNKNOWN, badge, duration, plural, size
from tfsteps.report.html import Html, tag
from tfsteps.report.logs import Tail
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.status import Incarnation, ReplicaStatus

_MOST = 200
_DENSE = 12
_INCARNATIONS = 60


def notable(replicas: Sequence[ReplicaStatus], decisive_replica: str, limit: int = _MOST) -> list[ReplicaStatus]:
    """Return at most `limit` of `replicas`, in their order; failed and restarted replicas are kept before others."""
    ranked = sorted(
        replicas, key=lambda r: (r.state is not ReplicaState.FAILED, r.name != decisive_replica, -r.restarts)
    )
    kept = {replica.name for replica in ranked[:limit]}
    return [replica for replica in replicas if replica.name in kept]


def panels(replicas: Sequence[ReplicaStatus], tails: Mapping[str, Tail], start: float, opened: str) -> Html:
    """Return the panels.

    Args:
        replicas: The replicas.
        tails: Ends of their logs, by name.
        start: When the job was created, in seconds since the epoch; times are shown relative to it.
        opened: Name of the replica whose panel is open; empty = none.
    """
    return tag(
        "div",
        *[_panel(replica, tails.get(replica.name, Tail()), start, opened) for replica in replicas],
        class_="replicas dense" if len(replicas) > _DENSE else "replicas",
    )


def _panel(replica: ReplicaStatus, tail: Tail, start: float, opened: str) -> Html:
    summary = tag(
        "summary",
        tag("span", replica.name, class_="name"),
        badge(replica.state),
        *[tag("span", fact, class_="quiet") for fact in _facts(replica)],
    )
    return tag(
        "details",
        summary,
        tag("div", _incarnations(replica.incarnations, start), _log(replica.name, tail), class_="inside"),
        id=replica.name,
        open=replica.name == opened,
    )


def _facts(replica: ReplicaStatus) -> list[str]:
    incarnations = replica.incarnations
    if not incarnations:
        return ["never started"]
    last = incarnations[-1]
    cpu = [incarnation.cpu_seconds for incarnation in incarnations if incarnation.cpu_seconds is not None]
    memory = [incarnation.memory_bytes for incarnation in incarnations if incarnation.memory_bytes is not None]
    return [
        *([f"exit code {last.exit_code}"] if last.exit_code is not None else []),
        *([last.reason] if last.reason else []),
        *([plural(replica.restarts, "restart")] if replica.restarts else []),
        *([f"CPU {duration(sum(cpu))}"] if cpu else []),
        *([f"peak {size(max(memory))}"] if memory else []),
    ]


def _incarnations(incarnations: Sequence[Incarnation], start: float) -> Html | None:
    if not incarnations:
        return None
    first = max(0, len(incarnations) - _INCARNATIONS)
    heads = ["Start", "At", "Duration", "State", "Exit code", "Reason", "CPU", "Peak memory", "Place"]
    rows = [_cells("td", _incarnation(place, incarnations[place], start)) for place in range(first, len(incarnations))]
    note = tag("p", f"{plural(first, 'earlier start')} not shown.", class_="note") if first else None
    table = tag("table", tag("thead", _cells("th", heads)), tag("tbody", *rows))
    return tag("div", note, table, class_="scroll")


def _incarnation(place: int, incarnation: Incarnation, start: float) -> list[str]:
    return [
        str(place + 1),
        duration(incarnation.started - start),
        "still running" if incarnation.ended is None else duration(incarnation.ended - incarnation.started),
        badge(incarnation.state),
        UNKNOWN if incarnation.exit_code is None else str(incarnation.exit_code),
        incarnation.reason or UNKNOWN,
        duration(incarnation.cpu_seconds),
        size(incarnation.memory_bytes),
        incarnation.place or UNKNOWN,
    ]


def _cells(kind: str, texts: Iterable[str]) -> Html:
    return tag("tr", *[tag(kind, text, scope="col" if kind == "th" else None) for text in texts])


def _log(name: str, tail: Tail) -> Html:
    if not tail.lines:
        far = f"The lines of {name} are too far from the end of the log file."
        note = far if tail.earlier else f"{name} printed nothing."
        return tag("p", note, class_="note")
    lines = [part for line in tail.lines for part in (tag("i", line.at), f" {line.text}\n")]
    count = plural(len(tail.lines), "line")
    note = f"Last {count} of the log, times in UTC" if tail.earlier else f"Whole log, {count}, times in UTC"
    label = f"Log of {name}"
    return tag("div", tag("p", note, class_="note"), tag("pre", *lines, tabindex=0, role="region", aria_label=label))
