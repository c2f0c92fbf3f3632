"""The timeline of a job: its states, and below them a row for each replica with a bar for each incarnation."""

from collections.abc import Sequence

import msgspec

from tfsteps.report.formats import duration, ended_with, icon, moment, size
from tfsteps.report.html import Html, number, tag
from tfsteps.runs.status import ReplicaStatus, Status

_TICKS = 8
_LAST_TICK = 0.95  # share of the width; labels further right do not fit
_BARS = 60  # of one replica
_STATES = 200
_DAY = 86400.0
_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, _DAY]


class TimelineRange(msgspec.Struct, frozen=True):
    """Start of the timeline, in seconds since the epoch, and its length in seconds, greater than 0."""

    start: float
    length: float

    def share(self, at: float) -> float:
        """Return the position of a time on the timeline, in percent, from 0 to 100."""
        return 100 * max(0.0, min(1.0, (at - self.start) / self.length))

    def place(self, start: float, end: float) -> str:
        """Return the CSS of an element that reaches from `start` to `end`."""
        left = self.share(start)
        return f"left:{number(left)}%;width:{number(max(0.0, self.share(end) - left))}%"


def extent(status: Status) -> TimelineRange:
    """Return the time from the creation of the job to its last recorded event."""
    incarnations = [incarnation for replica in status.replicas for incarnation in replica.incarnations]
    known = [incarnation.started for incarnation in incarnations] + [
        incarnation.ended for incarnation in incarnations if incarnation.ended is not None
    ]
    known += [transition.at for transition in status.transitions] + ([status.ended] if status.ended else [])
    start = status.created or min(known, default=0.0)
    return TimelineRange(start, max([0.1, *[at - start for at in known]]))


def timeline(status: Status, replicas: Sequence[ReplicaStatus]) -> Html:
    """Return the timeline of a job and of `replicas`."""
    whole = extent(status)
    rows = [axis(whole), _job(status, whole), *[_replica(replica, whole) for replica in replicas]]
    dense = " dense" if len(replicas) > 16 else ""
    return tag("div", *rows, class_=f"timeline{dense}", role="region", aria_label="Timeline", tabindex=0)


def row(label: Html, *inside: Html, kind: str = "") -> Html:
    """Return one line of a timeline: a label, and what is placed along the time."""
    return tag("div", tag("div", label, class_="label"), tag("div", *inside, class_="track"), class_=f"row {kind}")


def axis(whole: TimelineRange) -> Html:
    """Return the line with the times."""
    length = whole.length
    step = next((step for step in _STEPS if length / step <= _TICKS), 0.0)
    step = step or _DAY * -(-length // (_DAY * _TICKS))
    ticks = [
        tag("span", duration(i * step), style=f"left:{number(100 * i * step / length)}%", class_="tick")
        for i in range(int(length / step * _LAST_TICK) + 1)
    ]
    return row(tag("span", "Since creation", class_="quiet"), *ticks, kind="axis")


def _job(status: Status, whole: TimelineRange) -> Html:
    changes = status.transitions[-_STATES:]
    bars = []
    ends = [*[change.at for change in changes[1:]], whole.start + whole.length]
    for change, end in zip(changes, ends, strict=False):
        label = f"Job {change.state} at {duration(change.at - whole.start)}"
        lasted = "" if change.state.terminal else f" for {duration(end - change.at)}"
        tip = "\n".join(filter(None, [label + lasted, change.reason, change.message]))
        kind = f"bar is-{change.state}" + (" end" if change.state.terminal else "")
        inside = tag("span", change.state.value)
        place = whole.place(change.at, end)
        bars.append(tag("span", inside, style=place, class_=kind, data_tip=tip, tabindex=0, role="img", aria_label=tip))
    return row(tag("span", icon(status.state), "Job", class_=f"is-{status.state}"), *bars, kind="job")


def _replica(replica: ReplicaStatus, whole: TimelineRange) -> Html:
    first = max(0, len(replica.incarnations) - _BARS)
    bars = []
    for place, incarnation in enumerate(replica.incarnations[first:], first):
        count = f", start {place + 1} of {len(replica.incarnations)}" if len(replica.incarnations) > 1 else ""
        text = ", ".join([incarnation.state.value, *ended_with(incarnation)])
        began, ended = incarnation.started, incarnation.ended
        lasted = "still running" if ended is None else f"ran {duration(ended - began)}"
        used = [f"CPU {duration(incarnation.cpu_seconds)}"] if incarnation.cpu_seconds is not None else []
        used += [f"memory {size(incarnation.memory_bytes)} at peak"] if incarnation.memory_bytes is not None else []
        tip = "\n".join(
            [
                f"{replica.name}{count}",
                text,
                f"started at {duration(began - whole.start)} ({moment(began)}), {lasted}",
                *([", ".join(used)] if used else []),
                *([incarnation.place] if incarnation.place else []),
            ]
        )
        bar = tag(
            "a",
            tag("span", "↻ " if place else None, text),
            href=f"#{replica.name}",
            style=whole.place(began, whole.start + whole.length if ended is None else ended),
            class_=f"bar is-{incarnation.state}",
            data_tip=tip,
            aria_label=f"{tip.replace(chr(10), '. ')}. Open the log.",
        )
        bars.append(bar)
    if not bars:
        bars = [tag("span", "never started", class_="absent")]
    label = tag(
        "a", icon(replica.state), replica.name, href=f"#{replica.name}", class_=f"is-{replica.state}", tabindex=-1
    )
    return row(label, *bars)
