"""The recurring runs of Kubeflow Pipelines, by its API."""

import contextlib
import datetime as dt
from collections.abc import Iterator
from typing import Any

from tfsteps.engines.kfp.client import open_client, pages
from tfsteps.engines.kfp.recurring_run import schedule_of
from tfsteps.engines.schedules import Outcome, ScheduledRun, SchedulePlace, ScheduleState, newest_first
from tfsteps.schedule import Schedule

_MOST_RUNS = 500  # of all pipelines, the newest first
_STATES: dict[str, Outcome] = {
    "PENDING": "pending",
    "RUNNING": "running",
    "PAUSED": "running",
    "CANCELING": "running",
    "SUCCEEDED": "succeeded",
    "SKIPPED": "succeeded",
    "FAILED": "failed",
    "CANCELED": "cancelled",
}
MANUAL_OF = "tfsteps schedules run-now: "
"""Begins the description of a manual run of a schedule; the id of the recurring run follows."""


@contextlib.contextmanager
def open_schedules(place: SchedulePlace) -> Iterator["RecurringRuns"]:
    """Yield the recurring runs of an API. CommandError if it refuses what a method asks for."""
    with open_client(place.host, place.context) as client:
        yield RecurringRuns(client, place.namespace, place.server_timezone)


class RecurringRuns:
    """All recurring runs of a namespace, empty = of an installation for one user. See `Schedules`."""

    def __init__(self, client: Any, namespace: str, server_timezone: str) -> None:
        """Take a client of Kubeflow Pipelines."""
        self._client, self._namespace, self._zone = client, namespace or None, server_timezone

    def states(self) -> list[ScheduleState]:
        recurring = [*pages(self._client.list_recurring_runs, "recurring_runs", namespace=self._namespace)]
        runs: list[Any] = []
        unknown = ""
        newest = pages(self._client.list_runs, "runs", namespace=self._namespace) if recurring else ()
        for run in newest:
            if len(runs) == _MOST_RUNS:
                unknown = f"only the newest {_MOST_RUNS} runs of all pipelines were read"
                break
            runs.append(run)
        return [self._state(item, runs, unknown) for item in recurring]

    def set_paused(self, state: ScheduleState, *, paused: bool) -> None:
        change = self._client.disable_recurring_run if paused else self._client.enable_recurring_run
        change(state.id)

    def run_now(self, state: ScheduleState) -> str:
        import kfp_server_api  # type: ignore[import-untyped]  # noqa: PLC0415  installed with the client

        item = self._client.get_recurring_run(state.id)
        kept = ("pipeline_spec", "pipeline_version_reference", "runtime_config", "service_account", "experiment_id")
        run = kfp_server_api.V2beta1Run(
            display_name=f"{state.name} manual",
            description=f"{MANUAL_OF}{state.id}",
            **{field: getattr(item, field) for field in kept},
        )
        return str(self._client._run_api.run_service_create_run(run=run).run_id)  # noqa: SLF001  it has no public one

    def deleted_with(self, state: ScheduleState) -> Iterator[str]:
        """Yield the recurring run, and the runs whose Workflows are deleted with it; the API keeps their results."""
        yield f"recurring run {state.name} ({state.id})"
        for run in state.runs:
            if not run.manual and run.outcome in ("pending", "running"):
                yield f"run {run.name} ({run.outcome}): its Workflow"

    def delete(self, state: ScheduleState) -> None:
        self._client.delete_recurring_run(state.id)

    def _state(self, item: Any, runs: list[Any], unknown: str) -> ScheduleState:
        schedule_runs = [
            _run(run, manual=run.recurring_run_id != item.recurring_run_id)
            for run in runs
            if item.recurring_run_id in (run.recurring_run_id, (run.description or "").removeprefix(MANUAL_OF))
        ]
        when, schedule = self._when(item.trigger)
        return ScheduleState(
            name=item.display_name or item.recurring_run_id,
            id=item.recurring_run_id,
            kind="recurring run",
            namespace=item.namespace or "",
            when=when,
            schedule=schedule,
            created=_seconds(item.created_at) or 0.0,
            paused=item.status == "DISABLED",
            runs=newest_first(schedule_runs),
            unknown=unknown,
            catches_up=not item.no_catchup,
        )

    def _when(self, trigger: Any) -> tuple[str, Schedule | None]:
        """Return a trigger as text, and when it fires; None = that cannot be computed."""
        cron, periodic = (trigger and trigger.cron_schedule), (trigger and trigger.periodic_schedule)
        when = cron or periodic
        if when is None:
            return "-", None
        schedule = schedule_of(
            cron.cron if cron else "",
            int(periodic.interval_second or 0) if periodic else 0,
            self._zone,
            start=when.start_time and when.start_time.isoformat(timespec="seconds"),
            end=when.end_time and (when.end_time + dt.timedelta(seconds=1)).isoformat(timespec="seconds"),
        )
        return f"{cron.cron} {self._zone}" if cron else f"every {periodic.interval_second}s", schedule


def _run(run: Any, *, manual: bool) -> ScheduledRun:
    return ScheduledRun(
        name=run.run_id,
        planned=None if manual else _seconds(run.scheduled_at),
        sent=_seconds(run.created_at),
        outcome=_STATES.get(run.state or "PENDING", "unknown"),
        manual=manual,
    )


def _seconds(moment: dt.datetime | None) -> float | None:
    """Return a time of the API in seconds since the epoch; None if it is missing, or the epoch itself."""
    return (moment.timestamp() or None) if moment else None
