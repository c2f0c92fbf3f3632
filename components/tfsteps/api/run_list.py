"""Lists runs: filters, sorts and shows their jobs, and pipelines."""

import contextlib
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.backends.backend_location import on_of
from tfsteps.backends.base import RunBackend
from tfsteps.backends.find import Job
from tfsteps.backends.open import open_platform
from tfsteps.backends.records import record_of
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.text import clean, duration, iso
from tfsteps.runs.demo import Mark
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity, label_value
from tfsteps.runs.location import Location
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import CLOCK_SECONDS, Status, may_continue
from tfsteps.spec.rules import LABEL_KEY, LABEL_VALUE
from tfsteps.spec.units import parse_duration
from tfsteps.systems import registry

_CREATED, _DURATION, _TASK = "created", "duration", "task"
_COLUMNS = (
    "NAMESPACE",
    "OBJECT",
    "RUN",
    "PIPELINE",
    "TRIGGER",
    "DEMO",
    "TASK",
    "ATTEMPT",
    "STATE",
    "SYSTEM",
    "AGE",
    "DURATION",
)
_LATEST = dt.datetime(9999, 12, 31, tzinfo=dt.UTC).timestamp()
_UNKNOWN = Status(identity=Identity(run="", task=""), job="", system="", state=State.UNKNOWN)
SPARE = ("SYSTEM", "ATTEMPT", "DURATION", "PIPELINE", "OBJECT")
"""Columns that a narrow terminal leaves out, in this order."""


class Entry(msgspec.Struct, frozen=True):
    """One line of the list.

    Attributes:
        status: Of a job; of a pipeline, its state and its times: it has no job system.
        run_object: The name of the object of its run on a cluster, such as a Workflow; empty = none.
        job: The job, as its backend returned it; None = it is a pipeline.
        trigger: What started its pipeline: manual, scheduled, unknown; `-` = it has none; empty = nobody asked.
        demo: The mark of a demo; None = it is none.
        engine: The name of a pipeline's engine; empty = it is a job, or that was not recorded.
    """

    status: Status
    run_object: str = ""
    job: Job | None = None
    trigger: str = ""
    demo: Mark | None = None
    engine: str = ""

    @property
    def is_job(self) -> bool:
        """False for a pipeline."""
        return self.job is not None

    @classmethod
    def of(cls, job: Job) -> "Entry":
        """Return the entry of a job. Its metrics come from the record on this machine if its place has none."""
        status = job.status
        if not status.metrics and status.state.terminal and (record := record_of(status)):
            status = msgspec.structs.replace(status, metrics=record.status.metrics, code=record.status.code)
        return cls(status, job.run_object, job, demo=job.demo)

    @classmethod
    def of_pipeline(cls, record: PipelineRecord) -> "Entry":
        """Return the entry of a pipeline."""
        status = Status(
            identity=Identity(run=record.run, task="", pipeline=record.pipeline),
            job="",
            system="",
            state=record.state,
            message=record.message,
            created=record.created,
            ended=record.ended,
            location=Location.ELSEWHERE if record.run_object else Location.LOCAL,
            outlives_launcher=bool(record.run_object),
        )
        return cls(status, record.run_object, demo=record.demo, engine=record.engine)

    def seconds(self, now: float) -> float | None:
        """Return how long it has run, in seconds; None if that is not known."""
        if self.status.ended is None and self.status.state.terminal:
            return None
        seconds = (self.status.ended or now) - self.status.created
        return None if seconds < -CLOCK_SECONDS else max(seconds, 0.0)


class Filter(msgspec.Struct, frozen=True):
    """Which entries are listed.

    Attributes:
        states: Any of these states; empty = all.
        task: Only this task; None = all.
        pipeline: Only this pipeline; None = all, and jobs outside of pipelines.
        since: Created at this time or later, in seconds since the epoch; None = whenever.
    """

    states: frozenset[State] = frozenset()
    task: str | None = None
    pipeline: str | None = None
    since: float | None = None

    def matches(self, entry: Entry) -> bool:
        """Return whether an entry is listed."""
        status, identity = entry.status, entry.status.identity
        return (
            (not self.states or status.state in self.states)
            and self.task in (None, identity.task)
            and (self.pipeline is None or identity.pipeline in (self.pipeline, label_value(self.pipeline)))
            and (self.since is None or status.created >= self.since)
        )


def entries(backend: RunBackend[Any], run: str | None, labels: Mapping[str, str], *, here: bool) -> list[Entry]:
    """Return all that can be listed, or all of one run; with `labels` only jobs, for pipelines have none.

    Args:
        backend: Where to look.
        run: What the user calls the run; None = all runs.
        labels: Only jobs with all of these labels.
        here: Whether it is this machine, whose records of platforms' jobs without a launcher are brought up to date.
    """
    if labels:
        run_entries = [*map(Entry.of, backend.jobs(backend.find(run).id if run else "", labels))]
    else:
        target = None if run is None else backend.find(run)
        jobs = target.jobs if target else backend.jobs()
        pipelines = backend.pipelines(jobs) if target is None else [target.pipeline] if target.pipeline else []
        run_entries = [*map(Entry.of, jobs), *map(Entry.of_pipeline, pipelines)]
    if not here:
        return run_entries
    statuses = _refreshed([entry.status for entry in run_entries])
    return [msgspec.structs.replace(entry, status=now) for entry, now in zip(run_entries, statuses, strict=True)]


def _refreshed(statuses: Sequence[Status]) -> list[Status]:
    """Return recorded statuses with the states that platforms report now of the jobs that launchers left there.

    If a platform does not answer, or its address is not set, these states are unknown, and a warning says why. A job
    that the platform does not have keeps its recorded state.
    """
    left: dict[str, list[Status]] = {}
    for status in statuses:
        if may_continue(status) and (on := on_of(status.location)) not in (Location.LOCAL, Location.KUBERNETES):
            left.setdefault(on, []).append(status)
    current: dict[str, Status] = {}
    for name, recorded in left.items():
        current |= _states_on_platform(name, recorded)
    return [_with_state(status, current) for status in statuses]


def _states_on_platform(name: str, left: Sequence[Status]) -> dict[str, Status]:
    """Return the statuses that a platform reports of some jobs, by their uids; unknown ones if it does not answer."""
    try:
        with open_platform(name) as backend:
            reported = [job.status for run in {status.identity.run for status in left} for job in backend.jobs(run)]
    except CommandError as error:
        warn(f"the states of {len(left)} jobs on {registry.platform(name).title} are not known: {error}")
        return {status.uid: _UNKNOWN for status in left}
    uids = {status.uid for status in left}
    return {status.uid: status for status in reported if status.uid in uids}


def _with_state(status: Status, current: Mapping[str, Status]) -> Status:
    """Return a status with the state of the same job in `current`, if it is there."""
    now = current.get(status.uid, status)
    return msgspec.structs.replace(status, state=now.state, reason=now.reason, message=now.message, ended=now.ended)


def parse_states(texts: Iterable[str]) -> frozenset[State]:
    """Return the states that `--state` names. CommandError for an unknown one; it lists them all."""
    states = set()
    for text in texts:
        if text not in set(State):
            raise CommandError(f"--state {text!r} is unknown: use one of {', '.join(State)}")
        states.add(State(text))
    return frozenset(states)


def parse_labels(texts: Iterable[str]) -> dict[str, str]:
    """Return the labels that `--label` names. CommandError for a text that is not `KEY=VALUE` in Kubernetes' syntax."""
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and LABEL_KEY.fullmatch(key) and LABEL_VALUE.fullmatch(value)):
            raise CommandError(f"--label {text!r} is not a label: write KEY=VALUE, such as team=vision")
        if labels.setdefault(key, value) != value:
            raise CommandError(f"--label {key} is given twice, as {labels[key]!r} and {value!r}; no job has both")
    return labels


def parse_since(text: str, now: float) -> float:
    """Return the time that `--since` names, in seconds since the epoch. CommandError if it is not a time.

    Args:
        text: A duration before now, `2h`, or a time in ISO 8601, in the local zone if it has no offset.
        now: The current time, in seconds since the epoch.
    """
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return bounded(dt.datetime.fromisoformat(text).timestamp())
    try:
        return bounded(now - parse_duration(text))
    except ValueError as error:
        wrong = f"--since {text!r} is not a time"
        raise CommandError(f"{wrong}: write a duration, 2h or 1d12h, or a time, 2026-11-21T07:30") from error


def bounded(moment: float) -> float:
    """Return a time in seconds since the epoch, or the nearest one that a log can have: from 1970 to 9999."""
    return min(max(moment, 0.0), _LATEST)


def ordered(entries: Sequence[Entry], sort: str, now: float) -> list[Entry]:
    """Return the entries in the order that `--sort` names, demos before all others.

    The newest, the longest or the highest value of a metric comes first; tasks are in alphabetical order. Entries
    without a value come last, and equal ones stay in the order of their age, the newest first.
    """

    def key(entry: Entry) -> tuple[Any, ...]:
        if sort == _CREATED:
            return ()
        if sort == _TASK:
            return not entry.is_job, entry.status.identity.task
        value = entry.seconds(now) if sort == _DURATION else entry.status.metrics.get(sort)
        return value is None, -(value or 0.0)  # the highest value first, None last

    return sorted(entries, key=lambda entry: (entry.demo is None, key(entry), -entry.status.created))


def check_sort(sort: str, entries: Iterable[Entry], metrics: Sequence[str]) -> None:
    """Raise CommandError if `--sort` names neither an order nor a metric: of an entry, or of `--metric`."""
    recorded = metric_names(entries)
    if sort not in {_CREATED, _DURATION, _TASK, *recorded, *metrics}:
        known = f" ({', '.join(map(clean, recorded))})" if recorded else ", which these runs do not have"
        raise CommandError(
            f"--sort {sort!r} is unknown: use {_CREATED}, {_DURATION}, {_TASK}, or the name of a metric{known}"
        )


def metric_names(entries: Iterable[Entry]) -> list[str]:
    """Return the names of all metrics of the entries, in alphabetical order."""
    return sorted({name for entry in entries for name in entry.status.metrics})


def rows(entries: Sequence[Entry], metrics: Sequence[str], now: float, *, namespaces: bool) -> list[list[str]]:
    """Return the header and a row for each entry.

    Columns that would be empty are left out: the namespace unless `namespaces`; objects of runs, pipelines and demos if
    there are none. Each of `metrics` adds a column.
    """
    used = {
        "NAMESPACE": namespaces,
        "OBJECT": any(entry.run_object for entry in entries),
        "TRIGGER": any(entry.trigger for entry in entries),
        "DEMO": any(entry.demo for entry in entries),
        "PIPELINE": any(entry.status.identity.pipeline for entry in entries),
    }
    columns = [i for i, name in enumerate(_COLUMNS) if used.get(name, True)]
    table = [list(_COLUMNS), *(_row(entry, now) for entry in entries)]
    values = [[clean(name) for name in metrics], *([_metric(entry, name) for name in metrics] for entry in entries)]
    return [[row[i] for i in columns] + more for row, more in zip(table, values, strict=True)]


def summary(entry: Entry, metrics: Sequence[str], now: float) -> dict[str, object]:
    """Return an entry for programs. It has `metrics`, null where one has no value; without them, all that it has."""
    status, identity = entry.status, entry.status.identity
    return {
        "run": identity.run,
        "workflow": entry.run_object,
        "task": identity.task,
        "attempt": identity.attempt if entry.is_job else None,
        "pipeline": identity.pipeline,
        "trigger": entry.trigger or None,
        "demo": entry.demo is not None,
        "picture": entry.demo.picture or None if entry.demo else None,
        "state": status.state.value,
        "reason": status.reason,
        "message": status.message,
        "system": status.system or None,
        "engine": entry.engine or None,
        "job": status.job,
        "namespace": status.namespace,
        "created": iso(status.created),
        "started": iso(status.started),
        "ended": iso(status.ended),
        "duration": entry.seconds(now),
        "metrics": {name: status.metrics.get(name) for name in metrics or status.metrics},
    }


def _row(entry: Entry, now: float) -> list[str]:
    status, identity = entry.status, entry.status.identity
    return [
        status.namespace,
        entry.run_object,
        clean(identity.run),
        clean(identity.pipeline) or "-",
        entry.trigger,
        "demo" if entry.demo else "-",
        clean(identity.task) or "-",
        str(identity.attempt) if entry.is_job else "-",
        status.state.value,
        status.system or "-",
        duration(now - status.created),
        duration(entry.seconds(now)),
    ]


def _metric(entry: Entry, name: str) -> str:
    value = entry.status.metrics.get(name)
    return "-" if value is None else f"{value:.6g}"
