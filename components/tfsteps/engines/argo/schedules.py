"""The schedules on a cluster that `tfsteps submit` created: CronWorkflows, CronJobs, and ConfigMaps of the janitor."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from tfsteps import typed_json
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.engines.argo import cronjob, objects, schedule_object
from tfsteps.engines.argo.cronworkflow import schedule_of
from tfsteps.engines.argo.objects import CONFIG_MAPS, CRON_JOBS, CRON_WORKFLOWS, RESOURCES
from tfsteps.engines.argo.rule_runs import PHASES, SCHEDULED_TIME, DatedRun, decision_of, runs_by_schedule
from tfsteps.engines.argo.schedule_object import ACCEPTED, PAUSED, SELECTOR
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.engines.argo.workflow_objects import owner_of
from tfsteps.engines.schedules import (
    SCHEDULE,
    Outcome,
    ScheduledRun,
    SchedulePlace,
    ScheduleState,
    newest_first,
)
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.runs import demo
from tfsteps.runs.identity import MANUAL, TRIGGER, label_value
from tfsteps.schedule import Schedule
from tfsteps.schedule.rules import DueRuns
from tfsteps.spec import SpecError
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.cleanup.clear import list_demos
from tfsteps.systems.kubernetes.times import seconds

CRON_WORKFLOW_LABEL = "workflows.argoproj.io/cron-workflow"
"""Label of the Workflows that a CronWorkflow starts: its name."""

_CRONS = (CRON_WORKFLOWS, CRON_JOBS)
_JOBS = Resource("batch/v1", "jobs", "Job")
_CONDITIONS: dict[str, Outcome] = {"Complete": "succeeded", "Failed": "failed"}
_PART_OF = "app.kubernetes.io/part-of=tfsteps"

_Object = Mapping[str, Any]


@contextlib.contextmanager
def open_schedules(place: SchedulePlace) -> Iterator["ClusterSchedules"]:
    """Yield the schedules on a cluster. CommandError if it refuses what a method asks for."""
    with objects.cluster(place.context) as api:
        yield ClusterSchedules(api, "" if place.everywhere else place.namespace or api.access.namespace)


class ClusterSchedules:
    """The schedules of a namespace, empty = of all. See `Schedules`. What changes one raises DemoError for a demo."""

    def __init__(self, api: Api, namespace: str) -> None:
        """Send no request yet."""
        self._api, self._namespace = api, namespace

    def states(self) -> list[ScheduleState]:
        listed = [(resource, self._listed(resource)) for resource in _CRONS]
        crons = [(resource, item) for resource, items in listed for item in items or [] if objects.is_ours(item)]
        ruled = self._listed(CONFIG_MAPS, labelSelector=SELECTOR) or []
        if not crons and not ruled:
            return []
        manual = self._listed(WORKFLOWS, labelSelector=SCHEDULE)
        runs = self._ruled_runs() if ruled else None
        now = self._api.server_time() or time.time()
        states = [_ruled_state(item, runs, manual, now) for item in ruled]
        if not crons:
            return states
        started = {
            CRON_WORKFLOWS: self._listed(WORKFLOWS, labelSelector=CRON_WORKFLOW_LABEL),
            CRON_JOBS: self._listed(_JOBS, labelSelector=_PART_OF),
        }
        return [*(_state(resource, item, started[resource], manual) for resource, item in crons), *states]

    def set_paused(self, state: ScheduleState, *, paused: bool) -> None:
        self._object(state)
        body: dict[str, Any] = {"metadata": {"uid": state.id}, "spec": {"suspend": paused}}
        if state.kind == CONFIG_MAPS.kind:
            marks: dict[str, str | None] = {PAUSED: "true" if paused else None}
            if not paused:  # the user has seen how the last run ended
                marks[ACCEPTED] = str(int(self._api.server_time() or time.time()))
            body = {"metadata": {"uid": state.id, "annotations": marks}}
        self._api.patch(RESOURCES[state.kind], state.namespace, state.name, body)

    def run_now(self, state: ScheduleState) -> str:
        """Create the Workflow without what makes Argo count it as a run of the schedule: label and owner."""
        workflow = self._workflow(state)
        metadata = workflow.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), SCHEDULE: label_value(state.name), TRIGGER: MANUAL}
        kept = {"annotations": metadata["annotations"]} if metadata.get("annotations") else {}
        named = {"generateName": f"{state.name}-manual-", "labels": labels}
        body = {"apiVersion": WORKFLOWS.api, "kind": WORKFLOWS.kind, **workflow, "metadata": {**kept, **named}}
        return str(self._api.create(WORKFLOWS, state.namespace, body)["metadata"]["name"])

    def deleted_with(self, state: ScheduleState) -> Iterator[str]:
        yield f"{state.kind} {state.namespace}/{state.name}"
        for resource, item in self._dependents(state):
            yield f"{resource.kind} {state.namespace}/{item['metadata']['name']}"
        for run in state.runs:
            if run.sent is not None and not run.manual:  # manual runs have no owner
                yield f"run {run.name} ({run.outcome})"

    def delete(self, state: ScheduleState) -> None:
        """Delete the schedule first: if this is interrupted, no run starts without the objects that it needs.

        Its runs go with it, so none of them may be a demo.

        Raises:
            CommandError: Whether one is, is not known; or it was replaced meanwhile.
            DemoError: It, a run or a job of one is a demo.
        """
        self._object(state)
        self._check_runs(state)
        dependents = self._dependents(state)
        self._api.delete(RESOURCES[state.kind], state.namespace, state.name, state.id)
        for resource, item in dependents:
            self._api.delete(resource, state.namespace, item["metadata"]["name"], item["metadata"]["uid"])

    def _check_runs(self, state: ScheduleState) -> None:
        """Raise DemoError if a run that would go with a schedule, or its job, is a demo; records may lack runs."""
        names = {run.name for run in state.runs if not run.manual}
        resources = dict.fromkeys([WORKFLOWS, *(kind.resource for kind in registry.kinds())])
        try:
            for resource, item in list_demos(self._api, state.namespace, resources):
                run = item if resource == WORKFLOWS else self._workflow_of(item)
                owners = [owner["uid"] for owner in run["metadata"].get("ownerReferences") or []] if run else []
                if run and (run["metadata"]["name"] in names or state.id in owners):
                    raise demo.DemoError(resource, item["metadata"])
        except ApiError as error:
            if error.status != 403:
                raise
            what = f"{state.kind} {state.namespace}/{state.name} is not deleted: its runs would go with it, and whether"
            raise CommandError(
                f"{what} one or its job is a demo is not known; ask for the permission to read them: {error}"
            ) from error

    def _workflow_of(self, job: _Object) -> _Object | None:
        """Return the Workflow that a job would be deleted with; None = there is none."""
        owner = owner_of(job)
        try:
            item = self._api.get(WORKFLOWS, job["metadata"]["namespace"], owner.name) if owner else None
        except ApiError as error:
            if not error.missing:
                raise
            return None
        return item if owner and item and item["metadata"]["uid"] == owner.uid else None

    def _dependents(self, state: ScheduleState) -> list[tuple[Resource, dict[str, Any]]]:
        """Return the objects that `submit` created with a CronJob, the last one first."""
        if state.kind != CRON_JOBS.kind:
            return []
        pairs = []
        for resource in reversed([resource for resource in RESOURCES.values() if resource not in (WORKFLOWS, *_CRONS)]):
            try:
                item = self._api.get(resource, state.namespace, state.name)
            except ApiError as error:
                if not error.missing:
                    raise
            else:
                if objects.is_ours(item):
                    pairs.append((resource, item))
        return pairs

    def _object(self, state: ScheduleState) -> dict[str, Any]:
        """Return the object of a schedule as it is now.

        Raises:
            CommandError: It was replaced meanwhile.
            DemoError: It is a demo.
        """
        item = self._api.get(RESOURCES[state.kind], state.namespace, state.name)
        if item["metadata"]["uid"] != state.id:
            raise CommandError(f"{state.kind} {state.name} was replaced meanwhile; run the same command again")
        demo.check_changeable(RESOURCES[state.kind], item)
        return item

    def _workflow(self, state: ScheduleState) -> dict[str, Any]:
        """Return metadata and spec of the Workflow that a schedule runs."""
        item = self._object(state)
        if state.kind == CRON_WORKFLOWS.kind:
            return {"metadata": item["spec"].get("workflowMetadata"), "spec": item["spec"]["workflowSpec"]}
        data = self._api.get(CONFIG_MAPS, state.namespace, state.name)["data"]
        workflow: dict[str, Any] = typed_json.decode(data[cronjob.FILE], Any)
        return workflow

    def _ruled_runs(self) -> dict[tuple[str, str], dict[int, DatedRun]] | None:
        """Return the runs that the janitor started; None, after a warning, if they may not be listed."""
        try:
            return runs_by_schedule(self._api, self._namespace)
        except ApiError as error:
            if error.status != 403:
                raise
            warn(f"{WORKFLOWS.plural} are not shown, without the permission to list them: {error}")
            return None

    def _listed(self, resource: Resource, **selectors: str) -> list[dict[str, Any]] | None:
        """Return the objects of a kind, [] if it is not served; None, after a warning, if they may not be listed."""
        try:
            return [*self._api.iterate(resource, self._namespace, **selectors)]
        except ApiError as error:
            if error.status == 404:
                return []
            if error.status != 403:
                raise
            warn(f"{resource.plural} are not shown, without the permission to list them: {error}")
            return None


def _state(
    resource: Resource, item: _Object, started: list[dict[str, Any]] | None, manual: list[dict[str, Any]] | None
) -> ScheduleState:
    metadata, spec = item["metadata"], item["spec"]
    name, namespace = metadata["name"], metadata["namespace"]
    controlled = [run for run in started or [] if _controller(run) == metadata["uid"]]
    return ScheduleState(
        name=name,
        id=metadata["uid"],
        kind=resource.kind,
        namespace=namespace,
        when=", ".join(spec.get("schedules") or [spec.get("schedule") or ""]) + _zone(spec),
        schedule=schedule_of(spec),
        created=seconds(metadata.get("creationTimestamp")) or 0.0,
        paused=bool(spec.get("suspend")),
        runs=newest_first(
            [
                *map(_job_run if resource == CRON_JOBS else _workflow_run, controlled),
                *_manual_runs(item, manual),
            ]
        ),
        unknown=_not_listed(started, manual),
    )


def _ruled_state(
    item: _Object,
    by_schedule: dict[tuple[str, str], dict[int, DatedRun]] | None,
    manual: list[dict[str, Any]] | None,
    now: float,
) -> ScheduleState:
    """Return a schedule whose rules the janitor keeps: its records, and what it would do now."""
    metadata = item["metadata"]
    runs = (by_schedule or {}).get((metadata["namespace"], metadata["uid"]), {})
    schedule, decision, unknown = None, None, _not_listed(by_schedule, manual)
    try:
        schedule = schedule_object.read(item)[0]
        decision = decision_of(item, schedule, runs, now) if by_schedule is not None else None
    except (ValueError, SpecError) as error:
        unknown = unknown or str(error)
    return ScheduleState(
        name=metadata["name"],
        id=metadata["uid"],
        kind=CONFIG_MAPS.kind,
        namespace=metadata["namespace"],
        when=_when(schedule) if schedule else "unknown",
        # Dates before now are in the records.
        schedule=replace(schedule, catch_up=False) if schedule else None,
        created=seconds(metadata.get("creationTimestamp")) or 0.0,
        paused=(metadata.get("annotations") or {}).get(PAUSED) == "true",
        runs=newest_first(
            [*(_ruled_runs(metadata["name"], runs, decision) if decision else []), *_manual_runs(item, manual)]
        ),
        unknown=unknown,
        waiting=decision.why if decision else "",
    )


def _when(schedule: Schedule) -> str:
    return f"{schedule.cron} {schedule.timezone}" if schedule.cron else f"@every {int(schedule.interval or 0)}s"


def _ruled_runs(name: str, runs: Mapping[int, DatedRun], decision: DueRuns) -> Iterator[ScheduledRun]:
    for record in decision.state.records:
        run, result = runs.get(record.date), record.result
        if result == "missed":
            yield ScheduledRun(planned=record.date, outcome="missed")
        else:
            outcome: Outcome = (run.state or "unknown") if run else "removed" if result == "sent" else result
            yield ScheduledRun(
                name=f"{name}-{record.date}", planned=record.date, sent=run.created if run else None, outcome=outcome
            )
    for date in (*decision.start, *decision.waiting):
        yield ScheduledRun(planned=date, outcome="waiting")


def _manual_runs(item: _Object, manual: list[dict[str, Any]] | None) -> list[ScheduledRun]:
    """Return the runs that users started from a schedule."""
    of = (item["metadata"]["namespace"], label_value(item["metadata"]["name"]))
    return [
        _workflow_run(run, manual=True)
        for run in manual or []
        if (run["metadata"]["namespace"], run["metadata"]["labels"][SCHEDULE]) == of
    ]


def _not_listed(started: object, manual: object) -> str:
    missing = [kind for kind, runs in (("scheduled", started), ("manual", manual)) if runs is None]
    return f"{' and '.join(missing)} runs are not known: no permission to list them" if missing else ""


def _zone(spec: _Object) -> str:
    zone = spec.get("timezone") or spec.get("timeZone")
    return f" {zone}" if zone else ""


def _controller(item: _Object) -> str:
    """Return the uid of the schedule that started a run: another one may have had its name."""
    owners = item["metadata"].get("ownerReferences") or []
    return next((str(owner["uid"]) for owner in owners if owner["kind"] in {cron.kind for cron in _CRONS}), "")


def _workflow_run(item: _Object, *, manual: bool = False) -> ScheduledRun:
    phase = (item.get("status") or {}).get("phase", "")
    date = None if manual else _annotation(item, SCHEDULED_TIME)
    return _run(item, date, PHASES.get(phase, "unknown"), manual=manual)


def _job_run(item: _Object) -> ScheduledRun:
    """Return the run of a Job: the Workflow that it submits has its name, and it ends as the Workflow does."""
    status = item.get("status") or {}
    ends = [condition["type"] for condition in status.get("conditions") or [] if condition["status"] == "True"]
    outcome: Outcome = next((_CONDITIONS[end] for end in ends if end in _CONDITIONS), "running")
    return _run(item, _annotation(item, "batch.kubernetes.io/cronjob-scheduled-timestamp"), outcome)


def _run(item: _Object, date: str | None, outcome: Outcome, *, manual: bool = False) -> ScheduledRun:
    metadata = item["metadata"]
    sent = seconds(metadata.get("creationTimestamp"))
    return ScheduledRun(name=metadata["name"], planned=seconds(date), sent=sent, outcome=outcome, manual=manual)


def _annotation(item: _Object, name: str) -> str | None:
    return (item["metadata"].get("annotations") or {}).get(name)
