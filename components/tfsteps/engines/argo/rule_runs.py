"""Keeps the rules of schedules: creates the Workflow of each date that is due, once. A part of the janitor.

A run is created suspended, then its date is recorded in the schedule's ConfigMap, then the run is released. So a date
that is recorded never starts another run, even if its run was deleted; and a run that is not recorded has started
nothing, so it may be deleted and created again. The record has the uid of the run: another janitor that read the
schedule before may create a second run of the date after the first one was deleted, and this one is never released.

All passes write the record with the version of the ConfigMap that they read. If another janitor or a user changed it
meanwhile, the write is refused, and the next pass decides again.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tfsteps.engines.argo.objects import CONFIG_MAPS
from tfsteps.engines.argo.schedule_object import ACCEPTED, PAUSED, SELECTOR, STATE, read, state_of
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.engines.schedules import Kept
from tfsteps.kube.answers import CUT
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.resource import Metadata, metadata_of
from tfsteps.runs.identity import PREFIX, SCHEDULED, TRIGGER
from tfsteps.schedule import Schedule
from tfsteps.schedule.rules import DueRuns, RuleState, RunState, decide
from tfsteps.schedule.types import utc
from tfsteps.spec import SpecError, format_duration
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.cleanup.clear import list_demos, runs_of
from tfsteps.systems.kubernetes.times import seconds

SCHEDULE_UID = f"{PREFIX}schedule-uid"
"""Label of the Workflows that the janitor creates: the uid of the ConfigMap of their schedule."""
HELD = f"{PREFIX}held"
"""Annotation of a Workflow that is suspended until its date is recorded."""
SCHEDULED_TIME = "workflows.argoproj.io/scheduled-time"
"""Annotation of the Workflows of a schedule: their date; Argo's, which is `{{workflow.scheduledTime}}` in a step."""

PHASES: Mapping[str, RunState] = {
    "": "pending",
    "Pending": "pending",
    "Running": "running",
    "Succeeded": "succeeded",
    "Failed": "failed",
    "Error": "failed",
}
"""What the phases of Workflows mean; a Workflow that its controller has not seen has none."""

_MOST_SKEW_SECONDS = 60.0
_MOST_STEPS = 100  # of many dates each; other schedules wait meanwhile


class DatedRun(msgspec.Struct, frozen=True):
    """The Workflow of a date.

    Attributes:
        name: Its name.
        uid: Its uid.
        state: Its phase; None = it cannot be read.
        held: Whether it is suspended until its date is recorded.
        created: Seconds since the epoch; None = it does not say.
    """

    name: str
    uid: str
    state: RunState | None
    held: bool
    created: float | None


def keep_schedules(api: Api, namespace: str, say: Callable[[str], object], dry_run: bool, /) -> Kept:
    """Make one pass. See `KeepSchedules`."""
    kept = Kept()

    def failed(what: str, error: object) -> None:
        kept.failures += 1
        say(f"{what}: {error}")

    try:
        schedules = [*api.iterate(CONFIG_MAPS, namespace, labelSelector=SELECTOR)]
        # The schedules are read first: a run that was recorded before is in the list, unless it was deleted.
        runs = runs_by_schedule(api, namespace) if schedules else {}
    except (ApiError, ValueError) as error:
        failed("schedules and their runs cannot be listed, so no run is started", error)
        return kept
    if not schedules:
        return kept
    now = _now(api, failed)

    demos = functools.cache(functools.partial(_demos, api, namespace, failed))
    for item in schedules:
        kept.schedules += 1
        try:
            metadata = metadata_of(item)
            schedule_runs = runs.get((metadata.namespace, metadata.uid), {})
            if now is not None:
                kept.started += _SchedulePass(api, item, metadata, schedule_runs, say=say, demos=demos).start_due(
                    now, dry_run=dry_run
                )
        except (ApiError, ValueError, SpecError) as error:
            failed(f"Schedule {_described(item)}", error)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001  a ConfigMap may have any content
            failed(f"Schedule {_described(item)} is not understood", error)
    return kept


def _demos(api: Api, namespace: str, failed: Callable[[str, object], None]) -> frozenset[tuple[str, str]] | None:
    """Return the runs that no rule deletes or stops, by namespace and uid; None, after a report = not known."""
    resources = dict.fromkeys([WORKFLOWS, *(kind.resource for kind in registry.kinds())])
    try:
        return frozenset(run for _, item in list_demos(api, namespace, resources) for run in runs_of(item))
    except ApiError as error:
        failed("demos cannot be listed, so no run is stopped or deleted", error)
        return None


def _described(item: Any) -> str:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return "/".join(str(metadata.get(key, "?")) for key in ("namespace", "name")) if isinstance(metadata, dict) else "?"


def _now(api: Api, failed: Callable[[str, object], None]) -> float | None:
    """Return the earlier one of the API server's time and ours; None = not known. A run that is late can be started."""
    there, here = api.server_time(), time.time()
    if there is None:
        failed("the time is not known, so no run is started", "the API server's answers have no header Date")
        return None
    if abs(there - here) > _MOST_SKEW_SECONDS:
        apart = format_duration(float(round(abs(there - here))))
        failed(f"the clocks of the API server and of the janitor are {apart} apart", "the earlier one is used")
    return min(there, here)


def runs_by_schedule(api: Api, namespace: str) -> dict[tuple[str, str], dict[int, DatedRun]]:
    """Return the runs that the janitor created, by namespace and uid of their schedule and by date.

    Raises:
        ApiError: They cannot be listed.
        ValueError: The metadata of one of them is not valid, so not all are known.
    """
    runs: dict[tuple[str, str], dict[int, DatedRun]] = {}
    for item in api.iterate(WORKFLOWS, namespace, labelSelector=SCHEDULE_UID):
        metadata = metadata_of(item)
        uid = (metadata.labels or {})[SCHEDULE_UID]
        date = _date(metadata, uid)
        if date is None:
            continue
        runs.setdefault((metadata.namespace, uid), {})[date] = _run(item, metadata)
    return runs


def _date(metadata: Metadata, uid: str) -> int | None:
    """Return the date of a run of the schedule with this uid; None for another Workflow, such as a resubmitted one.

    `argo resubmit` copies labels, annotations and owners, but not the name, which only one object has.
    """
    owner = next((owner.name for owner in metadata.owner_references or [] if owner.uid == uid), None)
    stem, _, date = metadata.name.rpartition("-")
    return int(date) if owner is not None and stem == owner and date.isascii() and date.isdigit() else None


def _run(item: Mapping[str, Any], metadata: Metadata) -> DatedRun:
    state = None if CUT in item else PHASES.get((item.get("status") or {}).get("phase") or "")
    held = HELD in (metadata.annotations or {})
    created = seconds(metadata.creation_timestamp)
    return DatedRun(metadata.name, metadata.uid, state, held, created)


def decision_of(item: Mapping[str, Any], schedule: Schedule, runs: Mapping[int, DatedRun], now: float) -> DueRuns:
    """Return what is due of the schedule in a ConfigMap.

    Raises:
        ValueError: What was decided before cannot be read, or was removed while runs exist.
        SpecError: A part of it is not valid.
    """
    annotations = item["metadata"].get("annotations") or {}
    state = state_of(item)
    if state is None and not all(run.held for run in runs.values()):
        raise ValueError(f"it has runs, but its annotation {STATE} is missing: delete the schedule and submit it again")
    if unclear := [run.name for run in runs.values() if run.state is None]:
        raise ValueError(f"the state of Workflow {unclear[0]} cannot be read")
    return decide(
        schedule,
        created_at(item),
        state,
        {date: run.state for date, run in _recorded(state, runs).items() if run.state is not None},
        now,
        paused=annotations.get(PAUSED) == "true",
        accepted=_time(annotations.get(ACCEPTED, "0")),
    )


def _recorded(state: RuleState | None, runs: Mapping[int, DatedRun]) -> dict[int, DatedRun]:
    """Return the runs that are recorded, by their date."""
    records = state.records if state else ()
    return {record.date: run for record in records if (run := runs.get(record.date)) and run.uid == record.run}


def created_at(item: Mapping[str, Any]) -> float:
    """Return when a ConfigMap was created, in seconds since the epoch. ValueError if it does not say."""
    created = seconds(item["metadata"].get("creationTimestamp"))
    if created is None:
        raise ValueError("it has no creationTimestamp")
    return created


def _time(text: str) -> float:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"the annotation {ACCEPTED} is not a time in seconds: {text[:40]!r}")
    return float(text)


class _SchedulePass:
    """One schedule, in one pass."""

    def __init__(
        self,
        api: Api,
        item: dict[str, Any],
        metadata: Metadata,
        runs: dict[int, DatedRun],
        *,
        say: Callable[[str], object],
        demos: Callable[[], frozenset[tuple[str, str]] | None],
    ) -> None:
        self._demos = demos
        self._api, self._item, self._metadata, self._runs = api, item, metadata, runs
        self._print = say
        self._version = item["metadata"]["resourceVersion"]

    def _say(self, text: str) -> None:
        self._print(f"Schedule {self._metadata.namespace}/{self._metadata.name}: {text}")

    def start_due(self, now: float, *, dry_run: bool) -> int:
        """Do what is due, and return how many runs were started.

        Raises:
            ApiError, ValueError, SpecError: It cannot be done, or not be decided; the next pass tries again.
        """
        if CUT in self._item:
            raise ValueError(f"it is not understood: {self._item[CUT]}")
        if self._metadata.deletion_timestamp:
            return 0
        schedule, workflow = read(self._item)
        started = 0
        for _ in range(_MOST_STEPS):
            decision = decision_of(self._item, schedule, self._runs, now)
            if dry_run:
                for date in decision.start:
                    self._say(f"the run of {utc(date)} would be started")
                return len(decision.start)
            done = self._step(decision, workflow)
            if done is None:
                return started
            started += done
            if not decision.more:
                break
        return started

    def _step(self, decision: DueRuns, workflow: Mapping[str, Any]) -> int | None:
        """Do what was decided, and return how many runs were started; None = somebody else was faster."""
        before = state_of(self._item)
        created, error = self._create(decision.start, workflow)
        state = decision.started(created)
        recorded = _recorded(state, self._runs)
        needless = {date: run for date, run in self._runs.items() if run.held and date not in recorded}
        # Another janitor may have just recorded a run that is needless by what this one knows: write before it goes.
        if (state != before or needless) and not self._record(state):
            return None
        for date, run in needless.items():
            self._delete(date, run, "which has not started, deleted: it is not due any more")
        self._report(decision)
        for date in () if error else self._without_demos(decision.stop):
            self._change(date, "stopped: newer runs replace it", {"spec": {"shutdown": "Stop"}})
        self._release(state, workflow["spec"].get("suspend"))  # those of a pass that ended before it did so, too
        for date in self._without_demos(decision.remove):
            self._delete(date, self._runs[date], "deleted: `history` keeps fewer runs")
        if error:
            raise error
        return len(created)

    def _without_demos(self, dates: Sequence[int]) -> list[int]:
        """Return the dates whose runs and their jobs are certainly no demos."""
        demos = self._demos() if dates else None
        where = self._metadata.namespace
        return [date for date in dates if demos is not None and (where, self._runs[date].uid) not in demos]

    def _release(self, state: RuleState, suspend: bool | None) -> None:
        """Let the runs start whose dates are recorded; `suspend` is what the Workflow itself has."""
        change = {"metadata": {"annotations": {HELD: None}}, "spec": {"suspend": suspend}}
        for date, run in _recorded(state, self._runs).items():
            if run.held:
                self._change(date, f"started for {utc(date)}", change)
                self._runs[date] = replace(run, held=False)

    def _create(
        self, dates: tuple[int, ...], workflow: Mapping[str, Any]
    ) -> tuple[dict[int, str], ApiError | ValueError | None]:
        """Create the runs of `dates`, suspended; return the uids of those that exist, by date, and what failed.

        After a failure no later date follows, because dates are decided in their order.
        """
        created: dict[int, str] = {}
        for date in dates:
            try:
                if date not in self._runs:
                    self._runs[date] = self._created(date, workflow)
            except (ApiError, ValueError) as error:
                return created, error
            created[date] = self._runs[date].uid
        return created, None

    def _created(self, date: int, workflow: Mapping[str, Any]) -> DatedRun:
        """Create the run of a date, or find it. ValueError if another object has its name, or it is being deleted."""
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": self._metadata.name, "uid": self._metadata.uid}
        described, name = workflow["metadata"], f"{self._metadata.name}-{date}"
        body = {
            "apiVersion": WORKFLOWS.api,
            "kind": WORKFLOWS.kind,
            "metadata": {
                "name": name,
                "labels": {
                    **(described.get("labels") or {}),
                    TRIGGER: SCHEDULED,
                    SCHEDULE_UID: self._metadata.uid,
                },
                "annotations": {**(described.get("annotations") or {}), SCHEDULED_TIME: utc(date), HELD: "true"},
                "ownerReferences": [owner],
            },
            "spec": {**workflow["spec"], "suspend": True},
        }
        try:
            item = self._api.create(WORKFLOWS, self._metadata.namespace, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            item = self._api.get(WORKFLOWS, self._metadata.namespace, name)
        metadata = metadata_of(item)
        if _date(metadata, self._metadata.uid) != date:
            raise ValueError(f"another Workflow is called {name}; delete it, so that the run of {utc(date)} can start")
        if metadata.deletion_timestamp:
            raise ValueError(f"Workflow {name} is still being deleted; see its finalizers")
        return _run(item, metadata)

    def _record(self, state: RuleState) -> bool:
        """Store what was decided; False = the schedule was changed since it was read."""
        text = msgspec.json.encode(replace(state, changes=state.changes + 1)).decode()
        metadata = {"uid": self._metadata.uid, "resourceVersion": self._version, "annotations": {STATE: text}}
        try:
            item = self._api.patch(CONFIG_MAPS, self._metadata.namespace, self._metadata.name, {"metadata": metadata})
        except ApiError as error:
            if error.reason != "Conflict" and not error.missing:
                raise
            return False
        self._item, self._version = item, item["metadata"]["resourceVersion"]
        return True

    def _delete(self, date: int, run: DatedRun, done: str) -> None:
        self._api.delete(WORKFLOWS, self._metadata.namespace, run.name, run.uid)
        self._runs.pop(date)
        self._say(f"{run.name} {done}")

    def _report(self, decision: DueRuns) -> None:
        if (missed := decision.missed) and len(missed) > 1:
            self._say(f"{len(missed)} dates from {utc(missed[0])} to {utc(missed[-1])} are missed")
        elif missed:
            self._say(f"{utc(missed[0])} is missed")

    def _change(self, date: int, done: str, change: dict[str, Any]) -> None:
        """Change a run, unless it is gone."""
        run = self._runs[date]
        metadata = {"uid": run.uid, **change.get("metadata", {})}
        try:
            self._api.patch(WORKFLOWS, self._metadata.namespace, run.name, {**change, "metadata": metadata})
        except ApiError as error:
            if not error.missing and error.reason != "Conflict":
                raise
            self._say(f"{run.name} is already gone")
        else:
            self._say(f"{run.name} {done}")
